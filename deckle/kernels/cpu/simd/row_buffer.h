#pragma once

#include <memory>

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::simd {

/// Rows of n elements of a contiguous view as T: in place if they are T, else through a buffer of one row. One per thread.
template <typename T>
class RowBuffer {
 public:
  RowBuffer(const View& view, int64_t n) : view_(view), n_(n), direct_(view.dtype == dtype_of<T>) {
    if (!direct_) buffer_ = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(n));
  }
  const T* read(int64_t row) const {
    if (!direct_) load_run(place(row), view_.dtype, 1, n_, buffer_.get());
    return where(row);
  }
  /// Where to write the row; finish(row) stores it.
  T* where(int64_t row) const { return direct_ ? view_.ptr<T>() + row * n_ : buffer_.get(); }
  void finish(int64_t row) const {
    if (!direct_) store_run(buffer_.get(), n_, place(row), view_.dtype, 1);
  }

 private:
  char* place(int64_t row) const { return static_cast<char*>(view_.data) + row * n_ * item_size(view_.dtype); }

  const View& view_;
  int64_t n_;
  bool direct_;
  std::unique_ptr<T[]> buffer_;
};

/// Element `index` of a contiguous view of any dtype.
inline double value_at(const View& view, int64_t index) {
  double value = 0;
  load_run(static_cast<const char*>(view.data) + index * item_size(view.dtype), view.dtype, 1, 1, &value);
  return value;
}

inline void set_value(const View& view, int64_t index, double value) {
  store_run(&value, 1, static_cast<char*>(view.data) + index * item_size(view.dtype), view.dtype, 1);
}

}  // namespace deckle::kernels::cpu::simd
