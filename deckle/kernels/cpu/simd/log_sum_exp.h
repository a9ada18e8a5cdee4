#if defined(DECKLE_KERNELS_CPU_SIMD_LOG_SUM_EXP_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_LOG_SUM_EXP_H
#undef DECKLE_KERNELS_CPU_SIMD_LOG_SUM_EXP_H
#else
#define DECKLE_KERNELS_CPU_SIMD_LOG_SUM_EXP_H
#endif

#include <cmath>

#include "deckle/kernels/cpu/simd/math_exp.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

/// log sum exp of n elements, as max + log sum exp(x - max): -inf for none and for all -inf, inf with an inf, NaN with a NaN.
template <typename T>
HWY_INLINE double log_sum_exp(int64_t n, const T* x) {
  const hn::ScalableTag<T> d;
  const T max = max_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(x + i); });
  const T shift = std::isinf(max) ? T(0) : max;  // inf - inf is NaN
  const auto shifts = hn::Set(d, shift);
  const double sum = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return exp(d, hn::Sub(part.load(x + i), shifts)); });
  return static_cast<double>(shift) + std::log(sum);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
