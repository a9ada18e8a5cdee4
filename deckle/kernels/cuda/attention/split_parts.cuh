// Float32 as two numbers of float16: 2^e x = high + low, with one e for each head of a sequence, so that the largest of its
// numbers is at least 2^14 and below 2^15. high + low differs from 2^e x by up to 2^-24 of it or 2^-25, whichever is more: 2^-39
// of the largest.
#pragma once

#include <cuda_fp16.h>

#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"

namespace deckle::kernels::cuda::attention {

/// Of a head whose largest finite magnitude has these bits. A power of two and its inverse are float32.
__device__ __forceinline__ int part_exponent(int peak) { return peak == 0 ? 0 : min(14 - ((peak >> 23) - 127), 126); }
__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

/// One of q, k, v and dO.
struct SplitSide {
  const float* data;
  int64_t batch_stride, row_stride, head_stride;
  Sequences sequences;
  int heads, columns;
  int* peaks;        // [sequences, heads], zeros at first
  __half* parts;     // [2, all rows, heads, width]: high, then low
  int64_t part;      // elements of one
  const float* lse;  // of the side of queries: rows where it is -inf count as zeros, whatever they hold; null: none do
};

struct SplitSides {
  SplitSide side[4];
  int sides, batch, width;
};

/// Finds the peaks and writes the parts.
void split_operands(const SplitSides& sides, cudaStream_t stream);

/// high + low = p, as operands.
template <int N>
__device__ __forceinline__ void split_tile(const float (&p)[N / 2], uint32_t (&high)[N / 4], uint32_t (&low)[N / 4]) {
#pragma unroll
  for (int i = 0; i < N / 4; ++i) {
    high[i] = arch::pack<arch::Element::f16>(p[2 * i], p[2 * i + 1]);
    const float2 rounded = arch::unpack<arch::Element::f16>(high[i]);
    low[i] = arch::pack<arch::Element::f16>(p[2 * i] - rounded.x, p[2 * i + 1] - rounded.y);
  }
}

}  // namespace deckle::kernels::cuda::attention
