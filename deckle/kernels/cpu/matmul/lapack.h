#pragma once

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/matmul/openblas.h"
#include "deckle/kernels/cpu/matmul/single_thread.h"
#include "deckle/kernels/cpu/simd/convert.h"

/// What the kernels of linear algebra call of LAPACK, which comes with OpenBLAS; its matrices are column-major.
extern "C" {
void dgetrf_(const int* rows, const int* columns, double* matrix, const int* leading, int* pivots, int* info);
void dgetrs_(const char* transposed, const int* n, const int* sides, const double* matrix, const int* leading, const int* pivots,
             double* right, const int* right_leading, int* info, size_t);
void dpotrf_(const char* triangle, const int* n, double* matrix, const int* leading, int* info, size_t);
}

namespace deckle::kernels::cpu::lapack {

using matmul::SingleThread;

/// Elements [at, at + count) of contiguous memory.
inline void read(const View& view, int64_t at, int64_t count, double* to) {
  simd::load_run(static_cast<const char*>(view.data) + at * item_size(view.dtype), view.dtype, 1, count, to);
}
inline void write(const double* from, int64_t count, const View& view, int64_t at) {
  simd::store_run(from, count, static_cast<char*>(view.data) + at * item_size(view.dtype), view.dtype, 1);
}

/// A row-major matrix, which is overwritten, times x = `sides`, columns one after another. The pivot, from 1 on, that is 0; else
/// 0.
inline int solve(int n, int columns, double* matrix, int* pivots, double* sides) {
  matmul::prepare_openblas();
  int info = 0;
  dgetrf_(&n, &n, matrix, &n, pivots, &info);
  if (info != 0) return info;
  dgetrs_("T", &n, &columns, matrix, &n, pivots, sides, &n, &info, 1);
  return info;
}

/// The lower triangle of a row-major matrix becomes its factor. The order of the first minor that is not positive; else 0.
inline int cholesky(int n, double* matrix) {
  matmul::prepare_openblas();
  int info = 0;
  dpotrf_("U", &n, matrix, &n, &info, 1);
  return info;
}

}  // namespace deckle::kernels::cpu::lapack
