// self: [..., N, N], other and result: [..., N, K]; self result = other
//
// LU with partial pivots, LAPACK's, in float64 for every dtype: 2/3 N^3 + 2 N^2 K operations a matrix. Matrices are solved in
// parallel, each by one thread.

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/lapack.h"

namespace deckle::kernels::cpu {

void solve_matrices(const Context&, const View& self, const View& other, const View& result) {
  const int64_t n = self.sizes[self.ndim - 1], columns = other.sizes[other.ndim - 1];
  if (result.numel() == 0) return;
  const int64_t count = result.numel() / (n * columns);
  parallel_for(count, 1 + 65536 / (n * n * n + 1), [&](int64_t begin, int64_t end) {
    const lapack::SingleThread single;
    Scratch scratch;
    auto *const matrix = scratch.take<double>(n * n), *const sides = scratch.take<double>(n * columns),
                *const row = scratch.take<double>(n * columns);
    int* const pivots = scratch.take<int>(n);
    for (int64_t b = begin; b < end; ++b) {
      lapack::read(self, b * n * n, n * n, matrix);
      lapack::read(other, b * n * columns, n * columns, row);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < columns; ++j) sides[j * n + i] = row[i * columns + j];
      }
      const int singular = lapack::solve(static_cast<int>(n), static_cast<int>(columns), matrix, pivots, sides);
      check(singular == 0, "matrix {} of self is singular: pivot {} is 0 (expected a matrix with an inverse)", b, singular - 1);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < columns; ++j) row[i * columns + j] = sides[j * n + i];
      }
      lapack::write(row, n * columns, result, b * n * columns);
    }
  });
}

}  // namespace deckle::kernels::cpu
