#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::reduce {

/// The place of the extreme element of each of `rows` contiguous rows of n elements, n > 0: the first of equal ones; a NaN wins.
void arg_extrema_of_rows(bool largest, int64_t rows, int64_t n, const float* x, int64_t* places);
void arg_extrema_of_rows(bool largest, int64_t rows, int64_t n, const double* x, int64_t* places);
void arg_extrema_of_rows(bool largest, int64_t rows, int64_t n, const int64_t* x, int64_t* places);

}  // namespace deckle::kernels::cpu::reduce
