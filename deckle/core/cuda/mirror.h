#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>

#include "deckle/base/device.h"

/// Copies on devices of arrays of the host that do not change: the sizes, offsets and order of a ragged shape; and what kernels
/// make of them. Each is made when it is first asked for, and kept as long as the array.
namespace deckle::cuda {

/// The arrays live, unchanged, until drop_mirrors(owner). Does nothing before a GPU was used.
void keep_mirrors(const void* owner, std::initializer_list<std::span<const int64_t>> arrays);
void drop_mirrors(const void* owner) noexcept;

/// The copy of a kept array that begins at `host`; nullptr if nobody keeps one.
const int64_t* mirrored(const int64_t* host, Device device);

/// `bytes` of the device's memory beside the array, which `make` fills by work in this thread's stream when `key` is first asked
/// for; by a few keys at most. nullptr: nobody keeps the array, there are too many keys, or it would be made in a recording.
const void* made_of(const int64_t* host, Device device, std::span<const int64_t> key, int64_t bytes,
                    const std::function<void(void*)>& make);

}  // namespace deckle::cuda
