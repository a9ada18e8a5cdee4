#pragma once

#include <cstdint>

#include "deckle/base/dtype.h"

namespace deckle::kernels::cpu::matmul {

/// A strided matrix; strides count elements and may be 0 (a broadcast dim).
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::float32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 0;

  Matrix block(int64_t row, int64_t row_count, int64_t col, int64_t col_count) const {
    const auto* start = static_cast<const char*>(data) + (row * row_stride + col * col_stride) * item_size(dtype);
    return {start, dtype, row_count, col_count, row_stride, col_stride};
  }
};

/// A matrix in BLAS layout, with leading dimension `leading`: row-major, or column-major if transposed.
struct Operand {
  const void* data = nullptr;
  int64_t leading = 0;
  bool transposed = false;
};

/// c[m, n] = a[m, k] * b[k, n] (+ bias[n], + c if accumulate). c is row-major.
struct TileProduct {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Operand a;
  Operand b;
  void* c = nullptr;
  int64_t c_leading = 0;
  const void* bias = nullptr;
  bool accumulate = false;
};

}  // namespace deckle::kernels::cpu::matmul
