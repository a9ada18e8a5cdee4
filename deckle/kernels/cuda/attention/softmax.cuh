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

/// The magnitude of a maximum beyond which its product with c is rounded by more than p should be off by, or overflows.
inline constexpr float kFarMaximum = 1048576.0f;

/// scores[64 x N] becomes p = 2^(c s - c maximum), and is added to the rows' sums. `may_be_far`: all that a row sees may be far
/// from 0, as by a finite bias on each key that stands for -inf; the maximum is then subtracted before either is scaled.
template <int N, bool may_be_far = false>
__device__ __forceinline__ void exponentiate(float (&scores)[N / 2], RowState& state, float c) {
  float maximum[2], sum[2][2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    maximum[h] = state.maximum[h] == kMinusInfinity ? 0.0f : state.maximum[h];  // no key so far: p = 2^-inf, never inf - inf
    sum[h][0] = state.sum[h];
    sum[h][1] = 0.0f;
  }
  const auto take = [&](const auto& logarithm) {  // of a score and which row it is of
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      scores[i] = arch::exp2(logarithm(scores[i], (i >> 1) & 1));
      sum[(i >> 1) & 1][i & 1] += scores[i];
    }
  };
  if (may_be_far && __any_sync(~0u, fmaxf(fabsf(maximum[0]), fabsf(maximum[1])) > kFarMaximum)) {
    take([&](float score, int h) { return (score - maximum[h]) * c; });
  } else {
    const float shift[2] = {-maximum[0] * c, -maximum[1] * c};
    take([&](float score, int h) { return fmaf(score, c, shift[h]); });
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
/// log-sum-exp. `sink`: one more logit; null: none. A row without either gets zeros and -inf; NaN stays NaN. In natural units: in
/// powers of two a maximum near the least finite number is not finite.
struct RowEnd {
  float factor, lse;
};

__device__ __forceinline__ RowEnd end_row(float maximum, float sum, float c, const float* sink) {
  constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
  float largest = maximum == kMinusInfinity ? 0.0f : maximum * (c * kLn2), factor = 1.0f;  // c = log2 e: c ln 2 is 1
  if (sink != nullptr && *sink != kMinusInfinity) {
    const float most = sum == 0.0f ? *sink : fmaxf(largest, *sink);
    factor = sum == 0.0f ? 0.0f : arch::exp2((largest - most) * kLog2E);
    sum = fmaf(sum, factor, arch::exp2((*sink - most) * kLog2E));
    largest = most;
  }
  return {sum > 0.0f || sum != sum ? factor / sum : 0.0f, fmaf(arch::log2(sum), kLn2, largest)};
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
