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

/// How far, in powers of two, a maximum may lie below the true one before sums and outputs are rescaled: p stays below 2^8, which
/// float32 sums and the relative precision of 16-bit p do not notice. On random data almost every rescale is saved.
inline constexpr float kRescaleThreshold = 8.0f;

/// Brings the reference maximum of the two rows up to date; true, for the whole warp, if earlier sums and outputs must be
/// multiplied with `rescale`.
template <int N>
__device__ __forceinline__ bool update_maximum(const float (&scores)[N / 2], RowState& state, float (&rescale)[2], float c) {
  float maximum[2][2] = {{fmaxf(state.maximum[0], scores[0]), scores[1]}, {fmaxf(state.maximum[1], scores[2]), scores[3]}};
#pragma unroll
  for (int i = 4; i < N / 2; ++i) maximum[(i >> 1) & 1][i & 1] = fmaxf(maximum[(i >> 1) & 1][i & 1], scores[i]);
  float m[2];
  bool exceeds = false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    m[h] = quad_max(fmaxf(maximum[h][0], maximum[h][1]));
    exceeds = exceeds || (m[h] - state.maximum[h]) * c > kRescaleThreshold;
  }
  if (!__any_sync(~0u, exceeds)) return false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    rescale[h] = m[h] == kMinusInfinity ? 1.0f : arch::exp2((state.maximum[h] - m[h]) * c);
    state.maximum[h] = m[h];
    state.sum[h] *= rescale[h];
  }
  return true;
}

/// scores[64 x N] becomes p = 2^(c s - c maximum), and is added to the rows' sums.
template <int N>
__device__ __forceinline__ void exponentiate(float (&scores)[N / 2], RowState& state, float c) {
  float shift[2], sum[2][2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    shift[h] = state.maximum[h] == kMinusInfinity ? 0.0f : -state.maximum[h] * c;  // no key so far: p = 2^-inf, never inf - inf
    sum[h][0] = state.sum[h];
    sum[h][1] = 0.0f;
  }
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    scores[i] = arch::exp2(fmaf(scores[i], c, shift[(i >> 1) & 1]));
    sum[(i >> 1) & 1][i & 1] += scores[i];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) state.sum[h] = sum[h][0] + sum[h][1];
}

/// Where a row's reference, once it has one, is kept whatever larger scores come: their maxima are then not looked for, and p may
/// be as large as float32 and bfloat16 hold, whose relative precision is the same everywhere. What overflowed is not finite in
/// the sum or in the outputs, and stays so (infinite p times a value of 0 is NaN). Sums end below 2^60, so that their logarithm
/// is as precise as the log-sum-exp. Not for float16, which holds 2^16.
struct KeptReference {
  static constexpr float kLargestSum = 1152921504606846976.0f;

  template <int count>
  static __device__ __forceinline__ bool failed(const RowState& state, const float (&out)[count]) {
    float finite = 0.0f;
#pragma unroll
    for (float x : out) finite = fmaf(x, 0.0f, finite);
    const auto holds = [&](int h) { return state.sum[h] < kLargestSum && state.maximum[h] > kMinusInfinity; };
    return !(holds(0) && holds(1) && finite == 0.0f);
  }
};

/// The end of a row whose sum, of all its columns, belongs to `maximum`: what its outputs are multiplied with, and its
/// log-sum-exp. `sink`: one more logit; null: none. A row without either gets zeros and -inf; NaN stays NaN.
struct RowEnd {
  float factor, lse;
};

__device__ __forceinline__ RowEnd end_row(float maximum, float sum, float c, const float* sink) {
  constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
  float shift = maximum == kMinusInfinity ? 0.0f : maximum * c, factor = 1.0f;
  if (sink != nullptr && *sink != kMinusInfinity) {
    const float logit = *sink * kLog2E, most = sum == 0.0f ? logit : fmaxf(shift, logit);
    factor = sum == 0.0f ? 0.0f : arch::exp2(shift - most);
    sum = fmaf(sum, factor, arch::exp2(logit - most));
    shift = most;
  }
  return {sum > 0.0f || sum != sum ? factor / sum : 0.0f, (shift + arch::log2(sum)) * kLn2};
}

template <int count>
__device__ __forceinline__ void scale_rows(float (&c)[count], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < count; ++i) c[i] *= factor[(i >> 1) & 1];
}

/// Columns outside a thread's two row intervals become `masked`. `first` is the column of the tile's first key.
template <int N>
__device__ __forceinline__ void mask_scores(float (&scores)[N / 2], const Interval (&rows)[2], int first, int thread,
                                            float masked = kMinusInfinity) {
  const int column = first + tile::accumulator_column(thread);
  const int begin[2] = {rows[0].begin - column, rows[1].begin - column};
  const int end[2] = {rows[0].end - column, rows[1].end - column};
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const int h = (i >> 1) & 1;
    scores[i] = 8 * (i >> 2) + (i & 1) < end[h] ? scores[i] : masked;
  }
  // Both begins are at most 8 apart; the warp skips the left edge where no row has one in this tile.
  if (!__any_sync(~0u, max(begin[0], begin[1]) > 0)) return;
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    const int h = (i >> 1) & 1;
    scores[i] = 8 * (i >> 2) + (i & 1) >= begin[h] ? scores[i] : masked;
  }
}

}  // namespace deckle::kernels::cuda::attention
