#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "deckle/base/device.h"

/// Copies on devices of arrays of the host that do not change: the sizes, offsets and order of a ragged shape. A copy is made
/// when a kernel first asks for it, and kept as long as the array.
namespace deckle::cuda {

/// The arrays live, unchanged, until drop_mirrors(owner). Does nothing before a GPU was used.
void keep_mirrors(const void* owner, std::initializer_list<std::span<const int64_t>> arrays);
void drop_mirrors(const void* owner) noexcept;

/// The copy of a kept array that begins at `host`; nullptr if nobody keeps one.
const int64_t* mirrored(const int64_t* host, Device device);

}  // namespace deckle::cuda
