// The sum of planes of dS over heads, sequences or both, which is the gradient of a bias that they share.
#pragma once

#include <cstdint>

#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/score_gradients.h"

namespace deckle::kernels::cuda::attention {

struct ScoreSums {
  CudaAttentionPlane from;
  int sequences, heads;        // of `from`
  int to_sequences, to_heads;  // 1: summed
  int64_t items;               // chunks of keys, times rows, heads and sequences of `to`; 0: nothing is to be done
  bool first, last;            // of the turns that add to the same elements
  float* sums;                 // between them: a plane of `from` for each of `to`
};

/// Adds 8 packed numbers to as many sums.
__device__ __forceinline__ void add_chunk(arch::Element element, const uint4& chunk, float (&sum)[kScoreChunk]) {
  const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 pair = arch::unpack(element, words[j]);
    sum[2 * j] += pair.x;
    sum[2 * j + 1] += pair.y;
  }
}

/// In float32, sequence after sequence and in each head after head, to all of `to`: zeros where it reaches beyond rows and keys.
/// A turn that is not the first goes on with the sums of the one before, one that is not the last leaves sums and no gradient. A
/// thread adds up a chunk of a row, 16 bytes of each plane. Blocks side by side.
__device__ __forceinline__ void sum_planes(const ScoreSums& args, const CudaAttentionPlane& to, arch::Element element) {
  const CudaAttentionPlane& from = args.from;
  const int chunks = (to.columns + kScoreChunk - 1) / kScoreChunk;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < args.items; i += int64_t{gridDim.x} * blockDim.x) {
    const int first = static_cast<int>(i % chunks) * kScoreChunk, row = static_cast<int>(i / chunks % to.rows);
    const int64_t plane = i / chunks / to.rows;
    const int to_head = static_cast<int>(plane % args.to_heads), to_sequence = static_cast<int>(plane / args.to_heads);
    float sum[kScoreChunk] = {};
    const bool exists = row < from.rows && first < from.columns;
    auto* const waiting = reinterpret_cast<float4*>(args.sums + plane * from.head_stride + row * from.row_stride + first);
    if (exists && !args.first) {
#pragma unroll
      for (int j = 0; j < kScoreChunk; j += 4) *reinterpret_cast<float4*>(&sum[j]) = waiting[j / 4];
    }
    if (exists) {
      const int sequence_end = args.to_sequences > 1 ? to_sequence + 1 : args.sequences;
      const int head = args.to_heads > 1 ? to_head : 0, heads = args.to_heads > 1 ? 1 : args.heads;
      // Loads of terms that follow one another are under way at once.
      const bool of_heads = heads > 1;
      const int strips = of_heads ? sequence_end - to_sequence : 1, terms = of_heads ? heads : sequence_end - to_sequence;
      const int64_t stride = of_heads ? from.head_stride : from.sequence_stride;
      for (int strip = 0; strip < strips; ++strip) {
        const uint16_t* x = static_cast<const uint16_t*>(from.data) + (to_sequence + strip) * from.sequence_stride +
                            head * from.head_stride + row * from.row_stride + first;
#pragma unroll 8
        for (int term = 0; term < terms; ++term, x += stride) {
          add_chunk(element, __ldcs(reinterpret_cast<const uint4*>(x)), sum);
        }
      }
    }
    if (!args.last) {
#pragma unroll
      for (int j = 0; j < kScoreChunk && exists; j += 4) waiting[j / 4] = *reinterpret_cast<const float4*>(&sum[j]);
      continue;
    }
    uint16_t* const out =
        static_cast<uint16_t*>(to.data) + to_sequence * to.sequence_stride + to_head * to.head_stride + row * to.row_stride;
#pragma unroll
    for (int j = 0; j < kScoreChunk; ++j) {
      if (first + j >= to.columns) break;
      const float total = first + j < from.columns ? sum[j] : 0.0f;  // behind the keys of a row lies anything
      out[(first + j) * to.column_stride] = static_cast<uint16_t>(arch::pack(element, total, 0.0f));
    }
  }
}

}  // namespace deckle::kernels::cuda::attention
