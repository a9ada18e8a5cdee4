#pragma once

// The normal distribution function in float, and what is enough where the result is rounded to 11 bits or fewer: CUDA's own take
// 60 and more instructions an element, which is what gelu took as long as.
#include <cuda_runtime.h>

#include "deckle/kernels/cuda/arch/warp.cuh"

namespace deckle::kernels::cuda {
namespace detail {
/// erfc(a) = exp(-a^2) R((a - 4) / (a + 4)) / (1 + 2a), as in kernels/cpu/simd/math_erf.h, at a = |x| / sqrt(2). What rounding
/// x^2 loses, and its product with log2(e) / 2, is a factor. No branch, one reciprocal, about 35 instructions; within 6 units of
/// the last place, and 0 below -13.2.
__device__ __forceinline__ float normal_cdf(float x) {
  constexpr float kHalf = -0.72134752f, kRest = -9.6298149e-9f;  // -log2(e) / 2 in two
  const float b = fminf(fabsf(x), 15.0f), a = b * 0.70710678f;
  const float square = b * b, lost = fmaf(b, b, -square), exponent = square * kHalf;
  const float rest = fmaf(lost, kHalf, fmaf(square, kRest, fmaf(square, kHalf, -exponent)));
  const float rounded = arch::exp2(exponent), e = fmaf(rounded, 0.69314718f * rest, rounded);
  const float upper = fmaf(2.0f, a, 1.0f), lower = a + 4.0f, inverse = arch::reciprocal(upper * lower);
  const float t = (a - 4.0f) * upper * inverse;
  float r = 0.0003870571935f;  // half of R's
  r = fmaf(r, t, 0.00333834051f);
  r = fmaf(r, t, -0.0081222673f);
  r = fmaf(r, t, 0.0181804033f);
  r = fmaf(r, t, -0.0332680948f);
  r = fmaf(r, t, 0.0469317728f);
  r = fmaf(r, t, -0.050498563f);
  r = fmaf(r, t, 0.0340443478f);
  r = fmaf(r, t, 0.0076886823f);
  r = fmaf(r, t, -0.0698104735f);
  r = fmaf(r, t, 0.61649757f);
  const float tail = e * (r * (lower * inverse));
  return x != x ? x : x < 0 ? tail : 1.0f - tail;
}
/// exp(-x^2 / 2), and of its quotient with the tail of the distribution behind |x|, t p(t) with t = 1 / (1 + 0.3 |x|).
struct NarrowTail {
  float density, factor;
};
__device__ __forceinline__ NarrowTail narrow_tail(float x) {
  const float t = arch::reciprocal(fmaf(0.3f, fabsf(x), 1.0f));
  float p = -0.0779302114f;
  p = fmaf(p, t, 0.218546103f);
  p = fmaf(p, t, -0.0198231895f);
  p = fmaf(p, t, 0.145751729f);
  p = fmaf(p, t, 0.11334746f);
  p = fmaf(p, t, 0.120111542f);
  return {arch::exp2(-0.72134752f * (x * x)), t * p};
}
/// The normal distribution function by these: relative error 2^-16, 14 instructions.
__device__ __forceinline__ float narrow_normal_cdf(float x) {
  const NarrowTail parts = narrow_tail(x);
  const float tail = parts.density * parts.factor;
  return x < 0 ? tail : 1.0f - tail;
}
/// The derivative of x cdf(x), cdf(x) + x exp(-x^2 / 2) / sqrt(2 pi), 18 instructions. Infinity would meet a density of 0: 32 is
/// large enough.
__device__ __forceinline__ float narrow_gelu_slope(float x) {
  const NarrowTail parts = narrow_tail(x);
  const float tail = parts.density * fmaf(-0.39894228f, fminf(fabsf(x), 32.0f), parts.factor);
  return x < 0 ? tail : 1.0f - tail;
}
/// 1 - 2 / (exp(2x) + 1), near zero the series: relative error 2^-18.
__device__ __forceinline__ float narrow_tanh(float x) {
  const float square = x * x, far = fmaf(-2.0f, arch::reciprocal(arch::exp2(2.88539008f * x) + 1.0f), 1.0f);
  return square < 0.01f ? x * fmaf(square, fmaf(square, 0.133333333f, -0.333333333f), 1.0f) : far;
}
}  // namespace detail

}  // namespace deckle::kernels::cuda
