#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::segment {

/// For each column of `count` > 0 rows, `row_stride` elements apart, the largest element, a NaN if there is one, and `position`
/// plus the number of the first row that has it.
void largest_of_rows(const float* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, float* best,
                     int64_t* positions);
void largest_of_rows(const double* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, double* best,
                     int64_t* positions);

/// result[r * row_stride + c] = gradient[c] if positions[c] is position + r, else 0, for r < rows <= kMostRows.
inline constexpr int64_t kMostRows = int64_t{1} << 30;
void put_to_rows(const float* gradient, const int64_t* positions, int64_t columns, int64_t position, int64_t rows, float* result,
                 int64_t row_stride);
void put_to_rows(const double* gradient, const int64_t* positions, int64_t columns, int64_t position, int64_t rows,
                 double* result, int64_t row_stride);

/// For each column the sum, in float64 and in order, of those of `count` gradients whose position is this one. Strides are
/// elements from one gradient, or its positions, to the next.
void sum_at_position(const float* gradients, int64_t stride, const int64_t* positions, int64_t positions_stride, int64_t count,
                     int64_t columns, int64_t position, float* result);
void sum_at_position(const double* gradients, int64_t stride, const int64_t* positions, int64_t positions_stride, int64_t count,
                     int64_t columns, int64_t position, double* result);

}  // namespace deckle::kernels::cpu::segment
