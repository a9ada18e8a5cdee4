// Sums over rows are made in parts, one a block, and added up in their order: the last step of every gradient of a weight or
// bias.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace deckle::kernels::cuda {

/// Blocks of kColumns x kDepth threads add up kColumns columns.
inline constexpr int kColumns = 32, kDepth = 32;

/// Calls store(sum, column) for this block's columns of `n`, each by one thread; the sum is of value(part, column) over the parts
/// below `count`, in float64 and one order.
template <typename Value, typename Store>
__device__ __forceinline__ void merge_columns(int64_t n, int64_t count, const Value& value, const Store& store) {
  __shared__ double shared[kDepth][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  double sum = 0;
  if (column < n) {
#pragma unroll 8
    for (int64_t part = threadIdx.y; part < count; part += kDepth) sum += static_cast<double>(value(part, column));
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  for (int y = 1; y < kDepth; ++y) sum += shared[y][threadIdx.x];
  store(sum, column);
}

}  // namespace deckle::kernels::cuda
