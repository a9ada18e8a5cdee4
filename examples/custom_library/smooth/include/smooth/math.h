// Scalar functions of smooth/functions.yaml on vectors. Included once for each instruction set, after <hwy/highway.h>.
#if defined(SMOOTH_MATH_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMOOTH_MATH_H
#undef SMOOTH_MATH_H
#else
#define SMOOTH_MATH_H
#endif

#include "deckle/kernels/cpu/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace smooth::kernels::cpu::HWY_NAMESPACE {
namespace hn = ::hwy::HWY_NAMESPACE;
namespace math = ::deckle::kernels::cpu::HWY_NAMESPACE;

/// log(cosh(x)), which overflows nowhere and keeps its digits near zero.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V log_cosh(D d, V x) {
  const V size = hn::Abs(x), t = math::tanh(d, x);
  const V near_zero = hn::Mul(hn::Set(d, -0.5), math::log1p(d, hn::Neg(hn::Mul(t, t))));
  const V rest = math::log1p(d, math::exp(d, hn::Mul(hn::Set(d, -2), size)));
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 1)), near_zero, hn::Add(size, hn::Sub(rest, hn::Set(d, 0.69314718055994531))));
}

}  // namespace smooth::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
