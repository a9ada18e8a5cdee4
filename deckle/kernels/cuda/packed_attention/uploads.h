#pragma once

#include <cstdint>
#include <deque>

#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/mirror.h"

namespace deckle::kernels::cuda {

/// What a call has on the host and its kernels read on the device, one after the other. Memory lives as long as this.
class Uploads {
 public:
  explicit Uploads(Device device) : device_(device) {}

  /// Memory of the device, as it is.
  void* take(int64_t bytes) { return blocks_.emplace_back(bytes, device_).as<void>(); }

  /// A copy for this call.
  template <typename T>
  const T* copy(const T* host, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    void* const memory = take(bytes);
    deckle::cuda::copy_bytes(memory, device_, host, {}, bytes);
    return static_cast<const T*>(memory);
  }

  /// Of a ragged shape or a mask: its own copy, made once, or one for this call where nobody keeps it. Null if there is nothing.
  template <typename T>
  const T* kept(const T* host, int64_t count) {
    if (host == nullptr || count == 0) return nullptr;
    const T* const own = deckle::cuda::mirror_of(host, device_, count);
    return own != nullptr ? own : copy(host, count);
  }

 private:
  Device device_;
  std::deque<deckle::cuda::Block> blocks_;
};

}  // namespace deckle::kernels::cuda
