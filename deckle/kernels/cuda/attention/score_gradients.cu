// Bound by memory: 2 bytes a score of each head. A thread sums 8 keys of a row, 16 bytes of each plane.
#include "deckle/kernels/cuda/attention/score_gradients.h"

#include <algorithm>

#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/launch.h"

namespace deckle::kernels::cuda::attention {
namespace {

constexpr int kThreads = 256, kKeys = 8;

struct SumArguments {
  CudaAttentionPlane from, to;
  int sequences, heads;        // of `from`
  int to_sequences, to_heads;  // 1: summed
  int64_t items;               // chunks of keys, times rows, heads and sequences of `to`
  Element element;
};

__global__ void __launch_bounds__(kThreads) sum_planes(const __grid_constant__ SumArguments args) {
  const CudaAttentionPlane &from = args.from, &to = args.to;
  const int chunks = (to.columns + kKeys - 1) / kKeys;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < args.items; i += int64_t{gridDim.x} * kThreads) {
    const int first = static_cast<int>(i % chunks) * kKeys, row = static_cast<int>(i / chunks % to.rows);
    const int64_t plane = i / chunks / to.rows;
    const int to_head = static_cast<int>(plane % args.to_heads), to_sequence = static_cast<int>(plane / args.to_heads);
    float sum[kKeys] = {};
    if (row < from.rows && first < from.columns) {
      const int sequence_end = args.to_sequences > 1 ? to_sequence + 1 : args.sequences;
      const int head = args.to_heads > 1 ? to_head : 0, heads = args.to_heads > 1 ? 1 : args.heads;
      for (int sequence = to_sequence; sequence < sequence_end; ++sequence) {
        const uint16_t* x = static_cast<const uint16_t*>(from.data) + sequence * from.sequence_stride + head * from.head_stride +
                            row * from.row_stride + first;
#pragma unroll 8
        for (int h = 0; h < heads; ++h, x += from.head_stride) {
          const uint4 chunk = __ldcs(reinterpret_cast<const uint4*>(x));
          const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float2 pair = arch::unpack(args.element, words[j]);
            sum[2 * j] += pair.x;
            sum[2 * j + 1] += pair.y;
          }
        }
      }
    }
    uint16_t* const out =
        static_cast<uint16_t*>(to.data) + to_sequence * to.sequence_stride + to_head * to.head_stride + row * to.row_stride;
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      if (first + j >= to.columns) break;
      const float total = first + j < from.columns ? sum[j] : 0.0f;  // behind the keys of a row lies anything
      out[(first + j) * to.column_stride] = static_cast<uint16_t>(arch::pack(args.element, total, 0.0f));
    }
  }
}

}  // namespace

CudaAttentionPlane score_gradients(const AttentionSizes& sizes, void* memory) {
  CudaAttentionPlane plane;
  plane.data = memory;
  plane.rows = static_cast<int32_t>(sizes.query_rows);
  plane.columns = static_cast<int32_t>(sizes.key_rows);
  plane.column_stride = 1;
  plane.row_stride = (sizes.key_rows + kKeys - 1) / kKeys * kKeys;
  plane.head_stride = plane.row_stride * sizes.query_rows;
  plane.sequence_stride = plane.head_stride * sizes.heads;
  return plane;
}

int64_t score_gradients_bytes(const AttentionSizes& sizes) {
  return int64_t{sizeof(uint16_t)} * score_gradients(sizes, nullptr).sequence_stride * sizes.batch;
}

void sum_score_gradients(const AttentionBackward& arguments, const CudaAttentionPlane& from, cudaStream_t stream) {
  const AttentionSizes& sizes = arguments.problem.sizes;
  SumArguments args{};
  args.from = from;
  args.to = arguments.grad_bias;
  args.sequences = sizes.batch;
  args.heads = sizes.heads;
  args.to_sequences = args.to.sequence_stride != 0 ? sizes.batch : 1;
  args.to_heads = args.to.head_stride != 0 ? sizes.heads : 1;
  args.items = int64_t{(args.to.columns + kKeys - 1) / kKeys} * args.to.rows * args.to_heads * args.to_sequences;
  args.element = arguments.problem.element == AttentionElement::bf16 ? Element::bf16 : Element::f16;
  if (args.items == 0) return;
  const int64_t blocks = std::min<int64_t>((args.items + kThreads - 1) / kThreads, 1 << 20);
  launch_kernel("attention: gradient of the bias", sum_planes, static_cast<unsigned>(blocks), kThreads, 0, stream, args);
}

}  // namespace deckle::kernels::cuda::attention
