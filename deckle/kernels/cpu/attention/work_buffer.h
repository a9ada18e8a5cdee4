#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace deckle::kernels::cpu {

/// Memory of one call for sums of many megabytes, of unspecified contents. In large pages where the system grants them: touching
/// fresh memory in small ones costs as much as writing it once more.
template <typename T>
class WorkBuffer {
 public:
  void reset(int64_t count) {
    const size_t needed = std::max<size_t>(static_cast<size_t>(count) * sizeof(T), 1),
                 page = needed < kLargePage ? 64 : kLargePage;
    const size_t size = (needed + page - 1) / page * page;
    memory_.reset(static_cast<T*>(std::aligned_alloc(page, size)));
    if (memory_ == nullptr) throw std::bad_alloc();
    if (page == kLargePage) madvise(memory_.get(), size, MADV_HUGEPAGE);  // a wish: refused, it costs time alone
  }
  T* get() const { return memory_.get(); }
  T& operator[](int64_t i) const { return memory_.get()[i]; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  static constexpr size_t kLargePage = size_t{2} << 20;
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> memory_;
};

}  // namespace deckle::kernels::cpu
