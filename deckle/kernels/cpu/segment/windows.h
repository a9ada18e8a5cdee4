#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::segment {

/// For each column of `count` > 0 rows, `row_stride` elements apart, the largest element, a NaN if there is one, and `position`
/// plus the number of the first row that has it.
void largest_of_rows(const float* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, float* best,
                     int64_t* positions);
void largest_of_rows(const double* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, double* best,
                     int64_t* positions);

}  // namespace deckle::kernels::cpu::segment
