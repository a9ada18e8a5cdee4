// erf, erfc and the normal distribution function.
//
// Near zero erf is an odd polynomial. erfc(x) = exp(-x^2) R(t) / (1 + 2x) with t = (x - 4) / (x + 4), which maps [0, inf)
// to [-1, 1) and flattens erfcx (Shepherd and Laframboise, Math. Comp. 36, 1981). x^2 is formed exactly: the upper half of
// x squares without rounding, the rest enters the exponential as a correction.
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_ERF_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_ERF_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_ERF_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_ERF_H
#endif

#include "deckle/kernels/cpu/simd/math_exp.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace detail {

/// erf(x) for |x| <= 1.
template <class D, class V>
HWY_INLINE V erf_near_zero(D d, V x) {
  const V z = hn::Mul(x, x);
  if constexpr (kSingle<D>) {  // relative error 2^-29.6
    return hn::MulAdd(
        x, polynomial(d, z, 0.12837917, -0.376126258, 0.112835851, -0.0268538119, 0.00518832766, -0.000801019345, 7.85386078e-5),
        x);
  } else {  // 2^-62.7
    return hn::MulAdd(x,
                      polynomial(d, z, 0.12837916709551257, -0.37612638903183748, 0.11283791670954857, -0.026866170645072895,
                                 0.0052239776247808640, -0.00085483269787420734, 0.00012055331036895284, -1.4925593506790610e-5,
                                 1.6460972815456259e-6, -1.6350025206215846e-7, 1.4657879733255432e-8, -1.1365665549352248e-9,
                                 5.9452610704209903e-11),
                      x);
  }
}

/// R(t) above.
template <class D, class V>
HWY_INLINE V erfc_factor(D d, V t) {
  if constexpr (kSingle<D>) {  // relative error 2^-25.8
    return polynomial(d, t, 1.23299514, -0.139620947, 0.0153773646, 0.0680886956, -0.100997126, 0.0938635456, -0.0665361896,
                      0.0363608066, -0.0162445346, 0.00667668102, 0.000774114387);
  } else {  // 2^-59.5
    return polynomial(d, t, 1.2329951186255525, -0.13962111684056254, 0.015379652102619622, 0.068097054254695325,
                      -0.10103906603629772, 0.093732834998256260, -0.066330365812360087, 0.037167515538977494,
                      -0.016197734056208215, 0.0050319699648843572, -0.00075777329924057675, -0.00019925662552223910,
                      0.00015062172346782190, -2.4399442254836710e-5, -1.1222183001922879e-5, 5.7101968286671428e-6,
                      2.9416179273777228e-7, -8.2596654479766482e-7, 7.4105355401766748e-8, 1.1033296965823630e-7,
                      -1.7469674561948200e-8, -1.4070581887910471e-8, 1.6772780497290327e-9, 1.1981375946237359e-9);
  }
}

/// erfc(x) for x >= 0.
template <class D, class V>
HWY_INLINE V erfc_positive(D d, V x) {
  const V a = at_most(constant(d, kSingle<D> ? 11.0 : 28.0), x);  // erfc underflows at 10.1 (27.3)
  const V high = upper_half(d, a);
  const V low = hn::Mul(hn::Sub(high, a), hn::Add(high, a));  // high^2 - a^2
  const V e = exp_sum(d, hn::Neg(hn::Mul(high, high)), low);
  const V t = hn::Div(hn::Sub(a, constant(d, 4.0)), hn::Add(a, constant(d, 4.0)));
  return hn::Mul(e, hn::Div(erfc_factor(d, t), hn::MulAdd(constant(d, 2.0), a, hn::Set(d, 1))));
}

}  // namespace detail

template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V one = hn::Set(d, 1);
  const V a = hn::Abs(x);
  V far;
  if constexpr (kSingle<D>) {  // 1 - exp(p(x)) with p = log(erfc) on [1, 4.1]: no division; relative error 2^-29.8
    const V b = at_most(constant(d, 4.1), a);
    const V exponent =
        polynomial(d, b, -0.000341529256, -1.12708916, -0.638144882, -0.103106709, 0.0218380410, -0.00294765235, 0.000186378572);
    V n;
    const V r = detail::reduce_by_ln2(d, exponent, n);
    far = hn::NegMulAdd(hn::Add(one, detail::expm1_reduced(d, r)), detail::power_of_two(d, n), one);
  } else {
    far = hn::Sub(one, detail::erfc_positive(d, a));
  }
  return hn::IfThenElse(hn::Lt(a, one), detail::erf_near_zero(d, x), hn::CopySign(far, x));
}

/// 1 - erf(x), relative to the result also where that is tiny.
template <class D, class V>
HWY_INLINE V erfc(D d, V x) {
  const V a = hn::Abs(x);
  const V positive = detail::erfc_positive(d, a);
  const V far = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(constant(d, 2.0), positive), positive);
  return hn::IfThenElse(hn::Lt(a, constant(d, 0.5)), hn::Sub(hn::Set(d, 1), detail::erf_near_zero(d, x)), far);
}

/// erfc(-x / sqrt(2)) / 2, relative to the result also where that is tiny: exp(-x^2 / 2) times a slowly varying factor, x^2 / 2
/// formed exactly. One division.
template <class D, class V>
HWY_INLINE V normal_cdf(D d, V x) {
  const V one = hn::Set(d, 1), half = constant(d, 0.5);
  const V b = at_most(constant(d, kSingle<D> ? 15.0 : 39.0), hn::Abs(x));  // underflows at 14.2 (38.5)
  const V high = upper_half(d, b);
  const V low = hn::Mul(half, hn::Mul(hn::Sub(high, b), hn::Add(high, b)));
  V n;
  const V r = hn::Add(detail::reduce_by_ln2(d, hn::Mul(constant(d, -0.5), hn::Mul(high, high)), n), low);
  const V e = hn::Add(one, detail::expm1_reduced(d, r));
  V factor;
  if constexpr (kSingle<D>) {  // s p(s) with s = 1 / (1 + 0.35 b): relative error 2^-25.4, and the least by rounding
    const V s = hn::Div(one, hn::MulAdd(constant(d, 0.35), b, one));
    factor = hn::Mul(s, polynomial(d, s, 0.13961652, 0.139968395, 0.118855007, 0.110479936, -0.0385883227, 0.18987824,
                                   -0.294664085, 0.174549744, -0.0426720381, 0.0025765826));
  } else {  // half of erfc_positive's, both its quotients by one division
    const V a = hn::Mul(b, constant(d, 0.70710678118654752)), four = constant(d, 4.0);
    const V upper = hn::MulAdd(constant(d, 2.0), a, one), lower = hn::Add(a, four);
    const V inverse = hn::Div(one, hn::Mul(upper, lower));
    const V t = hn::Mul(hn::Mul(hn::Sub(a, four), upper), inverse);
    factor = hn::Mul(hn::Mul(half, detail::erfc_factor(d, t)), hn::Mul(lower, inverse));
  }
  const V tail = detail::scale(d, hn::Mul(e, factor), n);
  const V result = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
  if constexpr (kSingle<D>) return result;
  const V a = hn::Mul(x, constant(d, 0.70710678118654752));
  const V near_zero = hn::MulAdd(half, detail::erf_near_zero(d, a), half);
  return hn::IfThenElse(hn::Lt(hn::Abs(a), half), near_zero, result);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
