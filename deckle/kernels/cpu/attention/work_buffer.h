#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "deckle/base/aligned_block.h"

namespace deckle::kernels::cpu {

/// Workspace of one call for sums of many megabytes, uninitialised, in huge pages if at least one is filled.
template <typename T>
class WorkBuffer {
 public:
  void reset(int64_t count) {
    const size_t needed = std::max<size_t>(static_cast<size_t>(count) * sizeof(T), 1), page = needed < kHugePage ? 64 : kHugePage;
    const size_t size = (needed + page - 1) / page * page;
    memory_.reset(static_cast<T*>(aligned_block(size, kHugePage)));
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  T* get() const { return memory_.get(); }
  T& operator[](int64_t i) const { return memory_.get()[i]; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> memory_;
};

}  // namespace deckle::kernels::cpu
