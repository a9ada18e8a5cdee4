#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "deckle/base/error.h"

namespace deckle::kernels::cpu::matmul {

/// A buffer that grows and is reused: one per thread and purpose. Contents are lost when it grows.
class Scratch {
 public:
  /// At least `bytes` bytes, aligned to 64, uninitialised.
  void* bytes(size_t bytes) {
    if (bytes > capacity_) {
      capacity_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
      memory_.reset(std::aligned_alloc(kAlignment, capacity_));
      if (!memory_) {
        capacity_ = 0;
        throw Error(ErrorKind::out_of_memory, "no memory for a scratch buffer of " + std::to_string(bytes) + " bytes");
      }
    }
    return memory_.get();
  }

  template <typename T>
  T* array(int64_t count) {
    return static_cast<T*>(bytes(static_cast<size_t>(count) * sizeof(T)));
  }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  size_t capacity_ = 0;
};

}  // namespace deckle::kernels::cpu::matmul
