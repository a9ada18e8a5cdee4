#pragma once

#include <cstdint>

#include "deckle/kernels/cpu/simd/table.h"

namespace deckle::kernels::cpu::segment {

inline constexpr int64_t kMostRows = int64_t{1} << 30;

template <typename T>
struct WindowRows {
  /// For each column of `count` > 0 rows, `row_stride` elements apart, the largest element, a NaN if there is one, and `position`
  /// plus the number of the first row that has it.
  void (*largest)(const T* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, T* best, int64_t* positions);
  /// result[r * row_stride + c] = gradient[c] if positions[c] is position + r, else 0, for r < rows <= kMostRows.
  void (*put)(const T* gradient, const int64_t* positions, int64_t columns, int64_t position, int64_t rows, T* result,
              int64_t row_stride);
  /// For each column the sum, in float64 and in order, of those of `count` gradients whose position is this one. Strides are
  /// elements from one gradient, or its positions, to the next.
  void (*sum_at)(const T* gradients, int64_t stride, const int64_t* positions, int64_t positions_stride, int64_t count,
                 int64_t columns, int64_t position, T* result);
  /// For each column the sum, in float64 and in order, of `count` rows, `stride` elements apart, each times its weight: rounded
  /// to T, or as it is.
  void (*weighted_sum)(const T* rows, int64_t stride, const double* weights, int64_t count, int64_t columns, T* result);
  void (*wide_weighted_sum)(const T* rows, int64_t stride, const double* weights, int64_t count, int64_t columns, double* result);
};

const RealTable<WindowRows>& window_rows();

}  // namespace deckle::kernels::cpu::segment
