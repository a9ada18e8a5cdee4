// Float32 as two numbers of float16: 2^e x = high + low, with one e for each head of a sequence, so that the largest of its
// numbers is at least 2^14 and below 2^15. high + low differs from 2^e x by up to 2^-24 of it or 2^-25, whichever is more: 2^-39
// of the largest. Operands that this does not suit, as rows or columns beside one that is larger by orders of magnitude, are
// found on the way: the caller computes the call again in plain float32 (SplitSides::unsuited).
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
  int* peaks;   // [sequences, heads], zeros at first: bits of the largest finite magnitude
  int* depths;  // [sequences, heads], zeros at first: by how many powers of two the largest of a row is below 2^128, at most
  int range;    // powers of two that may lie between the largest of all rows and that of any row that is not 0
  int* column_peaks;  // [sequences, heads, width], zeros at first: as peaks, of each column; null: columns may differ by anything
  __half* parts;      // [2, all rows, heads, width]: high, then low
  int64_t part;       // elements of one
  const float* lse;   // of the side of queries: rows where it is -inf count as zeros, whatever they hold; null: none do
};

struct SplitSides {
  SplitSide side[4];  // the first is q
  int sides, batch, width, key_side;
  float scale;    // of scores
  int* unsuited;  // 0 at first; becomes 1 where a number is not finite, a row or column is beyond its range, or scores may err by
                  // too much
};

/// Powers of two that may lie between the largest of a head and that of any of its columns that is not 0: a sum over rows has a
/// column of its own, which errs by 2^-39 of the head's largest.
inline constexpr int kColumnRange = 12;

/// Where a workspace holds what is found of the numbers, ints that are zeros at first: the peaks of all sides, one behind the
/// other, their depths and the peaks of their columns in the same order, and whether the operands are unsuited.
struct FoundSpace {
  int64_t heads;  // of all sides and sequences
  int width;

  int64_t bytes() const { return ((2 + width) * heads + 1) * int64_t{sizeof(int)}; }
  int* depths(int* peaks) const { return peaks + heads; }  // of the heads, all or some, whose peaks these are
  /// Of the columns of the heads whose peaks these are.
  int* columns(int* all_peaks, const int* peaks) const { return all_peaks + 2 * heads + (peaks - all_peaks) * width; }
  int* unsuited(int* all_peaks) const { return all_peaks + (2 + width) * heads; }
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
