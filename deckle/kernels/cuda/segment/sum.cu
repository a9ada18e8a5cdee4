// Sums and means of the rows of each component.                    values: [rows, inner], sums: [B, inner]; in double, or int64
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"
#include "deckle/kernels/cuda/segment/ragged.cuh"

namespace deckle::kernels::cuda {
namespace {

using segment::DeviceRagged;

constexpr int kColumns = 32, kDepth = 8;

/// A block takes 32 columns of a component: thread y the rows y, y + 8, ...; their sums are added in order.
template <typename T>
__global__ void __launch_bounds__(256)
    sums(const void* values, DType dtype, DeviceRagged ragged, void* result, DType result_dtype, int64_t inner, bool mean) {
  __shared__ T shared[kDepth][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.y) * kColumns + threadIdx.x, component = blockIdx.x;
  const int64_t begin = ragged.offsets[component], end = ragged.offsets[component + 1];
  T sum = 0;
  if (column < inner) {
    for (int64_t row = begin + threadIdx.y; row < end; row += kDepth)
      sum += pointwise::load<T>(values, dtype, ragged.row(row) * inner + column);
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= inner) return;
  for (int y = 1; y < kDepth; ++y) sum += shared[y][threadIdx.x];
  pointwise::store(mean ? sum / static_cast<T>(end - begin) : sum, result, result_dtype, component * inner + column);
}

void run(const Context& context, const View& values, const RaggedView& ragged, const View& result, bool mean) {
  if (result.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded uploaded(context, ragged);
  const int64_t inner = result.numel() / ragged.components;
  const dim3 grid(static_cast<unsigned>(ragged.components), static_cast<unsigned>((inner + kColumns - 1) / kColumns));
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  if (is_floating(values.dtype))
    sums<double><<<grid, dim3(kColumns, kDepth), 0, stream>>>(values.data, values.dtype, uploaded.ragged(), result.data,
                                                              result.dtype, inner, mean);
  else
    sums<int64_t><<<grid, dim3(kColumns, kDepth), 0, stream>>>(values.data, values.dtype, uploaded.ragged(), result.data,
                                                               result.dtype, inner, mean);
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void segment_sum(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  run(context, values, ragged, result, false);
}
void segment_mean(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  run(context, values, ragged, result, true);
}

}  // namespace deckle::kernels::cuda
