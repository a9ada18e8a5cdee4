#pragma once

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// A contiguous [..., D] as the matrix [rows, D].
inline Matrix rows_of(const View& view) {
  int64_t rows = 1;
  for (int dim = 0; dim + 1 < view.ndim; ++dim) rows *= view.sizes[dim];
  const int64_t width = view.sizes[view.ndim - 1];
  return {view.data, view.dtype, rows, width, width, 1};
}

}  // namespace deckle::kernels::cpu::matmul
