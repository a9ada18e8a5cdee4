#pragma once

#include <cstdint>

#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::indexing {

/// A contiguous view as [outer, rows, inner] around one of its dims. Without dims: [1, 1, 1].
struct RowShape {
  int64_t outer = 1;
  int64_t rows = 1;
  int64_t inner = 1;

  RowShape(const View& view, int64_t dim) {
    for (int i = 0; i < view.ndim; ++i) (i < dim ? outer : i == dim ? rows : inner) *= view.sizes[i];
  }
  RowShape(int64_t outer_, int64_t rows_, int64_t inner_) : outer(outer_), rows(rows_), inner(inner_) {}
};

}  // namespace deckle::kernels::cpu::indexing
