#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

namespace deckle::kernels::cpu {

/// Tile buffers of the running thread, kept from task to task. The n-th take() of each Scratch gets the n-th buffer, so at
/// most one Scratch may live per thread at a time. Contents are unspecified. 64-byte aligned.
class Scratch {
 public:
  template <typename T>
  T* take(int64_t count) {
    return static_cast<T*>(bytes(static_cast<size_t>(count) * sizeof(T)));
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Buffer {
    std::unique_ptr<void, Free> memory;
    size_t size = 0;
  };

  static std::vector<Buffer>& buffers() {
    thread_local std::vector<Buffer> kept;
    return kept;
  }

  void* bytes(size_t size) {
    std::vector<Buffer>& kept = buffers();
    if (next_ == kept.size()) kept.emplace_back();
    Buffer& buffer = kept[next_];
    // Large allocations are page aligned, so all buffers would start in the same cache set: shift each by its own lines.
    const size_t shift = 64 * (5 * next_ % 61);
    ++next_;
    if (buffer.size < size) {
      buffer = {};
      const size_t rounded = (size + shift + 127) / 64 * 64;
      buffer.memory.reset(std::aligned_alloc(64, rounded));
      if (buffer.memory == nullptr) throw std::bad_alloc();
      buffer.size = size;
    }
    return static_cast<std::byte*>(buffer.memory.get()) + shift;
  }

  size_t next_ = 0;
};

}  // namespace deckle::kernels::cpu
