#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>

#include "deckle/base/device.h"

/// Copies on devices of arrays of the host that do not change: the sizes, offsets and order of a ragged shape, the ranges and
/// bytes of a mask; and what kernels make of them. Each is made when it is first asked for, and kept as long as the array.
namespace deckle::cuda {

/// The arrays live, unchanged, until drop_mirrors(owner); others may own them too. Does nothing before a GPU was used.
void keep_mirrors(const void* owner, std::initializer_list<std::span<const std::byte>> arrays);
void drop_mirrors(const void* owner) noexcept;

/// The copy of a kept array that begins at `host`; nullptr if nobody keeps one, or one of fewer than `least` elements.
const void* mirror_bytes(const void* host, Device device, int64_t least);
template <typename T>
const T* mirror_of(const T* host, Device device, int64_t least = 0) {
  return static_cast<const T*>(mirror_bytes(host, device, least * static_cast<int64_t>(sizeof(T))));
}

/// `bytes` of the device's memory beside the array, which `make` fills by work in this thread's stream when `key` is first asked
/// for; by 256 keys at most. nullptr: nobody keeps the array, there are too many keys, or it would be made in a recording.
const void* made_of(const void* host, Device device, std::span<const int64_t> key, int64_t bytes,
                    const std::function<void(void*)>& make);

}  // namespace deckle::cuda
