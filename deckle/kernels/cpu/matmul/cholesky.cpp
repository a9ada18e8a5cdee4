// self, result: [..., N, N]; result resultᵀ = (self + selfᵀ) / 2, result lower triangular
//
// LAPACK's, in float64 for every dtype: N^3 / 3 operations a matrix. Matrices are factored in parallel, each by one thread.

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/lapack.h"

namespace deckle::kernels::cpu {

void cholesky(const Context&, const View& self, const View& result) {
  if (result.numel() == 0) return;
  const int64_t n = self.sizes[self.ndim - 1];
  parallel_for(result.numel() / (n * n), 1 + 65536 / (n * n * n + 1), [&](int64_t begin, int64_t end) {
    const lapack::SingleThread single;
    Scratch scratch;
    auto *const given = scratch.take<double>(n * n), *const factor = scratch.take<double>(n * n);
    for (int64_t b = begin; b < end; ++b) {
      lapack::read(self, b * n * n, n * n, given);
      // LAPACK's columns are our rows: its upper triangle is our lower one.
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          factor[i * n + j] = j > i ? 0 : 0.5 * (given[i * n + j] + given[j * n + i]);
        }
      }
      int failed = lapack::cholesky(static_cast<int>(n), factor);
      for (int64_t i = 0; i < n && failed == 0; ++i) {
        if (!(factor[i * n + i] > 0)) failed = static_cast<int>(i) + 1;  // NaN, which LAPACK may pass over
      }
      check(failed == 0, "matrix {} of self is not positive definite: its leading minor {} is not (expected one that is)", b,
            failed);
      lapack::write(factor, n * n, result, b * n * n);
    }
  });
}

}  // namespace deckle::kernels::cpu
