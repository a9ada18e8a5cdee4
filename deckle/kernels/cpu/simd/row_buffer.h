#pragma once

#include <concepts>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::simd {

/// Contiguous elements of a dtype.
template <typename V>
concept TypedMemory = requires(const V& v) {
  { v.data } -> std::convertible_to<void*>;
  { v.dtype } -> std::convertible_to<DType>;
};

/// Rows of n contiguous elements as T: in place if they are T, else through a buffer of one row. One per thread.
template <typename T>
class RowBuffer {
 public:
  RowBuffer(const TypedMemory auto& memory, int64_t n) : data_(static_cast<char*>(memory.data)), dtype_(memory.dtype), n_(n) {
    if (!direct()) buffer_ = scratch_.take<T>(n);
  }
  const T* read(int64_t row) const {
    if (!direct()) load_run(place(row), dtype_, 1, n_, buffer_);
    return where(row);
  }
  /// Where to write the row; finish(row) stores it.
  T* where(int64_t row) const { return direct() ? reinterpret_cast<T*>(place(row)) : buffer_; }
  void finish(int64_t row) const {
    if (!direct()) store_run(buffer_, n_, place(row), dtype_, 1);
  }

 private:
  bool direct() const { return dtype_ == dtype_of<T>; }
  char* place(int64_t row) const { return data_ + row * n_ * item_size(dtype_); }

  char* data_;
  DType dtype_;
  int64_t n_;
  Scratch scratch_;
  T* buffer_ = nullptr;
};

/// Element `index` of contiguous elements of any dtype.
double value_at(const TypedMemory auto& memory, int64_t index) {
  double value = 0;
  load_run(static_cast<const char*>(memory.data) + index * item_size(memory.dtype), memory.dtype, 1, 1, &value);
  return value;
}

void set_value(const TypedMemory auto& memory, int64_t index, double value) {
  store_run(&value, 1, static_cast<char*>(memory.data) + index * item_size(memory.dtype), memory.dtype, 1);
}

}  // namespace deckle::kernels::cpu::simd
