#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/pair_gradients.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

// A warp a row and head, 4 columns a lane.
__global__ void __launch_bounds__(256) pair_statistics_kernel(const __grid_constant__ StatisticsOfRows args) {
  const int64_t row = int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  const int head = blockIdx.y, lane = threadIdx.x % 32;
  if (row >= args.rows) return;
  const int64_t at = row * args.heads + head;
  const float lse = args.lse[at];
  const bool dead = lse == kMinusInfinity;  // whatever the row holds
  const auto read = [&](const AttentionTensor& tensor) {
    float4 x = {0, 0, 0, 0};
    if (tensor.data == nullptr || dead || 4 * lane >= args.columns) return x;
    const int64_t from = row / args.rows_per_batch * tensor.batch_stride + row % args.rows_per_batch * tensor.row_stride +
                         head * tensor.head_stride + 4 * lane;
    if (args.bf16) {
      const uint2 pairs = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(tensor.data) + from);
      const float2 low = arch::unpack<Element::bf16>(pairs.x), high = arch::unpack<Element::bf16>(pairs.y);
      return float4{low.x, low.y, high.x, high.y};
    }
    const float* data = static_cast<const float*>(tensor.data) + from;
    const int left = args.columns - 4 * lane;
    return float4{data[0], left > 1 ? data[1] : 0.0f, left > 2 ? data[2] : 0.0f, left > 3 ? data[3] : 0.0f};
  };
  const auto dot = [](float4 a, float4 b) { return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, a.w * b.w))); };
  const float4 out = read(args.out), grad = read(args.grad_out);
  float delta = dot(out, grad), tangent = dot(read(args.out_tangent), grad) + dot(out, read(args.grad_out_tangent));
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    delta += __shfl_xor_sync(~0u, delta, lanes);
    tangent += __shfl_xor_sync(~0u, tangent, lanes);
  }
  if (lane != 0) return;
  if (args.grad_lse != nullptr) delta -= args.grad_lse[at];
  if (args.grad_lse_tangent != nullptr) tangent -= args.grad_lse_tangent[at];
  const float mean = args.lse_tangent != nullptr ? args.lse_tangent[at] : 0.0f;
  args.to[head * args.rows + row] =
      dead ? RowStatistics{-kMinusInfinity, 0.0f, 0.0f, 0.0f} : RowStatistics{lse * 1.4426950408889634f, delta, mean, tangent};
}

}  // namespace

void pair_statistics(const StatisticsOfRows& args, cudaStream_t stream) {
  if (args.rows == 0) return;
  const dim3 grid(static_cast<unsigned>((args.rows + 7) / 8), args.heads);
  launch_kernel("attention: row statistics", pair_statistics_kernel, grid, 256, 0, stream, args);
}

}  // namespace deckle::kernels::cuda::attention
