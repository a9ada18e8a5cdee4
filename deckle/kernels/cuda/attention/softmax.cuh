// Online softmax of a warpgroup's 64 rows: each thread holds parts of two rows, a quad of lanes holds a row.
#pragma once

#include "deckle/kernels/cuda/attention/problem.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"

namespace deckle::kernels::cuda::attention {

inline constexpr float kMinusInfinity = -__builtin_huge_valf();

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

/// Running maximum and sum of two rows. Scores are unscaled; `c` is scale · log2 e > 0, so that p = 2^(c s - c maximum).
struct RowState {
  float maximum[2];
  float sum[2];  // this thread's columns only, until the end

  __device__ __forceinline__ void reset() {
    maximum[0] = maximum[1] = kMinusInfinity;
    sum[0] = sum[1] = 0.0f;
  }
};

/// scores[64 x N] becomes p, and `rescale` what earlier sums and outputs of the two rows must be multiplied with.
template <int N>
__device__ __forceinline__ void online_softmax(float (&scores)[N / 2], RowState& state, float (&rescale)[2], float c) {
  float maximum[2][2] = {{fmaxf(state.maximum[0], scores[0]), scores[1]}, {fmaxf(state.maximum[1], scores[2]), scores[3]}};
#pragma unroll
  for (int i = 4; i < N / 2; ++i) maximum[(i >> 1) & 1][i & 1] = fmaxf(maximum[(i >> 1) & 1][i & 1], scores[i]);
  float shift[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float m = quad_max(fmaxf(maximum[h][0], maximum[h][1]));
    shift[h] = m == kMinusInfinity ? 0.0f : -m * c;  // a row without a key so far: p = 2^-inf, never inf - inf
    rescale[h] = arch::exp2(fmaf(state.maximum[h], c, shift[h]));
    state.maximum[h] = m;
  }
  float sum[2][2] = {};
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    scores[i] = arch::exp2(fmaf(scores[i], c, shift[(i >> 1) & 1]));
    sum[(i >> 1) & 1][i & 1] += scores[i];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) state.sum[h] = fmaf(state.sum[h], rescale[h], sum[h][0] + sum[h][1]);
}

template <int count>
__device__ __forceinline__ void scale_rows(float (&c)[count], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < count; ++i) c[i] *= factor[(i >> 1) & 1];
}

/// Columns outside a thread's two row intervals become -inf. `first` is the column of the tile's first key.
template <int N>
__device__ __forceinline__ void mask_scores(float (&scores)[N / 2], const Interval (&rows)[2], int first, int thread, float sign) {
  const int column = first + tile::accumulator_column(thread);
  const int begin[2] = {rows[0].begin - column, rows[1].begin - column};
  const unsigned length[2] = {static_cast<unsigned>(max(0, rows[0].end - rows[0].begin)),
                              static_cast<unsigned>(max(0, rows[1].end - rows[1].begin))};
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const int h = (i >> 1) & 1;
    const bool keep = static_cast<unsigned>(8 * (i >> 2) + (i & 1) - begin[h]) < length[h];
    scores[i] = keep ? scores[i] * sign : kMinusInfinity;
  }
}

}  // namespace deckle::kernels::cuda::attention
