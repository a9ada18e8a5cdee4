// One float32 or float64 matrix product tile by OpenBLAS.                                  c[m, n] = a[m, k] b[k, n]

#include "deckle/kernels/cpu/matmul/openblas_tile.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "deckle/kernels/cpu/matmul/openblas.h"
#include "deckle/kernels/cpu/matmul/single_thread.h"

namespace deckle::kernels::cpu::matmul {
namespace {

template <typename T, typename Gemm>
void multiply_by(Gemm gemm, const TileProduct& tile) {
  if (tile.m > 1 && tile.c_leading > std::numeric_limits<blasint>::max()) {  // operands have been packed where theirs is
    for (int64_t row = 0; row < tile.m; ++row) {
      TileProduct one = tile;
      one.m = 1;
      one.a.data = static_cast<const T*>(tile.a.data) + row * (tile.a.transposed ? 1 : tile.a.leading);
      one.c = static_cast<T*>(tile.c) + row * tile.c_leading;
      one.c_leading = tile.n;
      multiply_by<T>(gemm, one);
    }
    return;
  }
  auto* c = static_cast<T*>(tile.c);
  if (tile.bias != nullptr && !tile.accumulate) {
    const auto* bias = static_cast<const T*>(tile.bias);
    for (int64_t row = 0; row < tile.m; ++row) std::copy_n(bias, tile.n, c + row * tile.c_leading);
  }
  const T beta = tile.accumulate || tile.bias != nullptr ? T{1} : T{0};
  gemm(CblasRowMajor, tile.a.transposed ? CblasTrans : CblasNoTrans, tile.b.transposed ? CblasTrans : CblasNoTrans,
       static_cast<blasint>(tile.m), static_cast<blasint>(tile.n), static_cast<blasint>(tile.k), T{1},
       static_cast<const T*>(tile.a.data), static_cast<blasint>(tile.a.leading), static_cast<const T*>(tile.b.data),
       static_cast<blasint>(tile.b.leading), beta, c, static_cast<blasint>(tile.c_leading));
}

}  // namespace

void openblas_tile(const TileProduct& tile, DType dtype) {
  prepare_openblas();
  const SingleThread alone;
  if (dtype == DType::float64)
    multiply_by<double>(cblas_dgemm, tile);
  else
    multiply_by<float>(cblas_sgemm, tile);
}

}  // namespace deckle::kernels::cpu::matmul
