// Systems of linear equations and Cholesky factors, in float64 for every dtype as on CPUs.
//   solve_matrices  self result = other, LU with partial pivots           self: [..., N, N], other and result: [..., N, K]
//   cholesky        result resultᵀ = (self + selfᵀ) / 2, lower triangular
// A block a matrix, in memory of its own: 2/3 N^3 + 2 N^2 K and N^3 / 3 operations. Meant for many small matrices; one large one
// uses one multiprocessor. A matrix without a solution is an error of the next call that waits.
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"
#include "deckle/kernels/cuda/pointwise/report.cuh"

namespace deckle::kernels::cuda {
namespace {

constexpr int kThreads = 256;

/// The largest size of column `k` from row k on, and its row, the first of equal ones; NaN counts as nothing.
__device__ int64_t pivot_of(const double* matrix, int64_t n, int64_t k, double* sizes, int64_t* rows) {
  double size = -1;
  int64_t row = k;
  for (int64_t i = k + threadIdx.x; i < n; i += kThreads) {
    const double own = ::fabs(matrix[i * n + k]);
    if (own > size) {
      size = own;
      row = i;
    }
  }
  sizes[threadIdx.x] = size;
  rows[threadIdx.x] = row;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half) {
      const int other = static_cast<int>(threadIdx.x) + half;
      if (sizes[other] > sizes[threadIdx.x] || (sizes[other] == sizes[threadIdx.x] && rows[other] < rows[threadIdx.x])) {
        sizes[threadIdx.x] = sizes[other];
        rows[threadIdx.x] = rows[other];
      }
    }
  }
  __syncthreads();
  const int64_t found = rows[0];
  __syncthreads();
  return found;
}

/// matrices [count, n, n] and sides [count, n, columns] in double are overwritten.
__global__ void __launch_bounds__(kThreads)
    solve_kernel(double* matrices, double* sides, int64_t n, int64_t columns, deckle::cuda::IndexFault* fault) {
  __shared__ double sizes[kThreads];
  __shared__ int64_t rows[kThreads];
  double *const a = matrices + blockIdx.x * n * n, *const x = sides + blockIdx.x * n * columns;
  int64_t first_zero = 0;
  for (int64_t k = 0; k < n; ++k) {
    const int64_t pivot = pivot_of(a, n, k, sizes, rows);
    if (pivot != k) {
      for (int64_t j = threadIdx.x; j < n + columns; j += kThreads) {
        double &mine = j < n ? a[k * n + j] : x[k * columns + j - n],
               &other = j < n ? a[pivot * n + j] : x[pivot * columns + j - n];
        const double kept = mine;
        mine = other;
        other = kept;
      }
      __syncthreads();
    }
    const double diagonal = a[k * n + k];
    if (diagonal == 0) {
      if (first_zero == 0) first_zero = k + 1;
      continue;
    }
    const int64_t width = n - k - 1 + columns;  // columns right of k, then the sides
    for (int64_t i = k + 1 + threadIdx.x; i < n; i += kThreads) a[i * n + k] /= diagonal;
    __syncthreads();
    for (int64_t e = threadIdx.x; e < (n - k - 1) * width; e += kThreads) {
      const int64_t i = k + 1 + e / width, j = e % width;
      const double factor = a[i * n + k];
      if (j < n - k - 1)
        a[i * n + k + 1 + j] -= factor * a[k * n + k + 1 + j];
      else
        x[i * columns + j - (n - k - 1)] -= factor * x[k * columns + j - (n - k - 1)];
    }
    __syncthreads();
  }
  for (int64_t k = n - 1; k >= 0; --k) {
    for (int64_t j = threadIdx.x; j < columns; j += kThreads) x[k * columns + j] /= a[k * n + k];
    __syncthreads();
    for (int64_t e = threadIdx.x; e < k * columns; e += kThreads) {
      const int64_t i = e / columns, j = e % columns;
      x[e] -= a[i * n + k] * x[k * columns + j];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0 && first_zero != 0) pointwise::report(fault, deckle::cuda::matrix_singular, blockIdx.x, first_zero - 1);
}

/// The lower triangle of each matrix becomes its factor.
__global__ void __launch_bounds__(kThreads) cholesky_kernel(double* matrices, int64_t n, deckle::cuda::IndexFault* fault) {
  double* const a = matrices + blockIdx.x * n * n;
  int64_t first = 0;
  for (int64_t k = 0; k < n; ++k) {
    const double pivot = a[k * n + k];
    if (!(pivot > 0)) {
      first = k + 1;
      break;
    }
    const double root = ::sqrt(pivot);
    __syncthreads();
    for (int64_t i = k + threadIdx.x; i < n; i += kThreads) a[i * n + k] = i == k ? root : a[i * n + k] / root;
    __syncthreads();
    const int64_t width = n - k - 1;
    for (int64_t e = threadIdx.x; e < width * width; e += kThreads) {
      const int64_t i = k + 1 + e / width, j = k + 1 + e % width;
      if (j <= i) a[i * n + j] -= a[i * n + k] * a[j * n + k];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0 && first != 0) pointwise::report(fault, deckle::cuda::matrix_not_positive, blockIdx.x, first);
}

__global__ void __launch_bounds__(256) widen(const void* from, DType dtype, int64_t count, double* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i < count) to[i] = pointwise::load<double>(from, dtype, i);
}
__global__ void __launch_bounds__(256) narrow(const double* from, int64_t count, void* to, DType dtype) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i < count) pointwise::store(from[i], to, dtype, i);
}
/// The mean of a matrix and its transpose, below the diagonal; 0 above.
__global__ void __launch_bounds__(256) symmetric(const void* from, DType dtype, int64_t n, int64_t count, double* to) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e % (n * n), i = at / n, j = at % n, transposed = e - at + j * n + i;
  to[e] = j > i ? 0 : 0.5 * (pointwise::load<double>(from, dtype, e) + pointwise::load<double>(from, dtype, transposed));
}

unsigned blocks_of(int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

constexpr int64_t kItem = sizeof(double);

}  // namespace

void solve_matrices(const Context& context, const View& self, const View& other, const View& result) {
  const int64_t n = self.sizes[self.ndim - 1], columns = other.sizes[other.ndim - 1];
  if (result.numel() == 0) return;
  const int64_t count = result.numel() / (n * columns);
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const deckle::cuda::Block matrices(count * n * n * kItem, context.device), sides(count * n * columns * kItem, context.device);
  widen<<<blocks_of(count * n * n), 256, 0, stream>>>(self.data, self.dtype, count * n * n, matrices.as<double>());
  widen<<<blocks_of(count * n * columns), 256, 0, stream>>>(other.data, other.dtype, count * n * columns, sides.as<double>());
  solve_kernel<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(matrices.as<double>(), sides.as<double>(), n, columns,
                                                                      deckle::cuda::index_fault(context.device));
  narrow<<<blocks_of(count * n * columns), 256, 0, stream>>>(sides.as<double>(), count * n * columns, result.data, result.dtype);
  deckle::cuda::check_launch(context.device);
}

void cholesky(const Context& context, const View& self, const View& result) {
  if (result.numel() == 0) return;
  const int64_t n = self.sizes[self.ndim - 1], elements = result.numel(), count = elements / (n * n);
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const deckle::cuda::Block matrices(elements * kItem, context.device);
  symmetric<<<blocks_of(elements), 256, 0, stream>>>(self.data, self.dtype, n, elements, matrices.as<double>());
  cholesky_kernel<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(matrices.as<double>(), n,
                                                                         deckle::cuda::index_fault(context.device));
  narrow<<<blocks_of(elements), 256, 0, stream>>>(matrices.as<double>(), elements, result.data, result.dtype);
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
