// erf, erfc and the normal distribution function.
//
// float: near zero erf is an odd polynomial, elsewhere by the logarithm of erfc. double: Taylor's series at the nearest point of
// a table. erfc(x) = exp(-x^2) R(t) / (1 + 2x) with t = (x - 4) / (x + 4), which maps [0, inf) to [-1, 1) and flattens erfcx
// (Shepherd and Laframboise, Math. Comp. 36, 1981); of doubles only in vectors that reach beyond 5. x^2 is formed exactly: what
// its rounding took enters the exponential as a correction.
//
//   version                                                     ns of a vector of AVX-512, Emerald Rapids
//   erf of doubles by a polynomial below 1 and by 1 - erfc above                                     25.0
//   by the table                                                                                      7.6
//   erfc of doubles by exp(-x^2) R(t) / (1 + 2x) and, below 1/2, 1 - erf                             24.9
//   by the table                                                                                      8.8
//   erfc of floats, likewise                                                                         13.0
//   with one division, as normal_cdf                                                                  9.6
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_ERF_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_ERF_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_ERF_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_ERF_H
#endif

#include "deckle/kernels/cpu/simd/erf_table.h"
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

/// R(t) above, for doubles; relative error 2^-59.5.
template <class D, class V>
HWY_INLINE V erfc_factor(D d, V t) {
  return polynomial(d, t, 1.2329951186255525, -0.13962111684056254, 0.015379652102619622, 0.068097054254695325,
                    -0.10103906603629772, 0.093732834998256260, -0.066330365812360087, 0.037167515538977494,
                    -0.016197734056208215, 0.0050319699648843572, -0.00075777329924057675, -0.00019925662552223910,
                    0.00015062172346782190, -2.4399442254836710e-5, -1.1222183001922879e-5, 5.7101968286671428e-6,
                    2.9416179273777228e-7, -8.2596654479766482e-7, 7.4105355401766748e-8, 1.1033296965823630e-7,
                    -1.7469674561948200e-8, -1.4070581887910471e-8, 1.6772780497290327e-9, 1.1981375946237359e-9);
}

/// What exp(-a^2 factor) is made of: e 2^n, for a factor that is a power of two. a^2 is formed exactly.
template <class D, class V>
HWY_INLINE V exp_of_square(D d, V a, double factor, V& n) {
  V error;
  const V square = two_product(d, a, a, error);
  const V r = reduce_by_ln2(d, hn::Mul(constant(d, -factor), square), n);
  return exp_reduced(d, hn::NegMulAdd(constant(d, factor), error, r));
}

/// Floats: erfcx(a) / 2 = s p(s) with s = 1 / (1 + 0.35 sqrt(2) a), relative error 2^-25.4, and the least by rounding.
template <class D, class V>
HWY_INLINE V half_erfcx_single(D d, V s) {
  return hn::Mul(s, polynomial(d, s, 0.13961652, 0.139968395, 0.118855007, 0.110479936, -0.0385883227, 0.18987824, -0.294664085,
                               0.174549744, -0.0426720381, 0.0025765826));
}

/// erfc(x) for x >= 0.
template <class D, class V>
HWY_INLINE V erfc_positive(D d, V x) {
  const V one = hn::Set(d, 1);
  const V a = at_most(constant(d, kSingle<D> ? 11.0 : 28.0), x);  // erfc underflows at 10.1 (27.3)
  V n, factor;
  const V e = exp_of_square(d, a, 1.0, n);
  if constexpr (kSingle<D>) {
    const V half = half_erfcx_single(d, hn::Div(one, hn::MulAdd(constant(d, 0.49497474683058329), a, one)));
    factor = hn::Add(half, half);
  } else {
    const V t = hn::Div(hn::Sub(a, constant(d, 4.0)), hn::Add(a, constant(d, 4.0)));
    factor = hn::Div(erfc_factor(d, t), hn::MulAdd(constant(d, 2.0), a, one));
  }
  return scale(d, hn::Mul(e, factor), n);
}

/// Doubles: the nearest point r of the table to a in [0, 6], from which erf goes on by its slope at r times
///   the integral of exp(-2 r t - t^2) from 0 to delta = a - r
///   = delta sum over j of (-delta^2)^j / j! sum over i of (-w)^i / i! / (2 j + i + 1), with w = 2 r delta, |w| <= 3/32.
template <class D, class V>
struct ErfStep {
  hn::Vec<hn::RebindToSigned<D>> place;
  V delta, w;

  ErfStep(D d, V a) {
    const hn::RebindToSigned<D> di;
    const V rounder = constant(d, 0x1.8p46);  // a multiple of 1/64 in the low bits; NaN stays within the table
    const V rounded = hn::Add(a, rounder);
    place = hn::And(hn::BitCast(di, rounded), hn::Set(di, 511));
    const V r = hn::Sub(rounded, rounder);
    delta = hn::Sub(a, r);  // exact
    w = hn::Mul(hn::Add(r, r), delta);
  }
  V look_up(D d, const double* table) const { return hn::GatherIndex(d, table, place); }

  /// start + sign * slope * the integral; for erf the terms that are below 2^-59 of it are left out, for erfc, below 2^-52 (at
  /// 5).
  template <bool relative_to_erfc>
  V from(D d, V start, V slope) const {
    const V z = hn::Mul(delta, delta);
    V first, second, third, fourth;  // by powers of z, the first without its 1
    if constexpr (relative_to_erfc) {
      first = polynomial(d, w, -1.0 / 2, 1.0 / 6, -1.0 / 24, 1.0 / 120, -1.0 / 720, 1.0 / 5040, -1.0 / 40320, 1.0 / 362880);
      second = polynomial(d, w, -1.0 / 3, 1.0 / 4, -1.0 / 10, 1.0 / 36, -1.0 / 168, 1.0 / 960);
      third = polynomial(d, w, 1.0 / 10, -1.0 / 12, 1.0 / 28, -1.0 / 96);
      fourth = polynomial(d, w, -1.0 / 42, 1.0 / 48);
    } else {
      first = polynomial(d, w, -1.0 / 2, 1.0 / 6, -1.0 / 24, 1.0 / 120, -1.0 / 720, 1.0 / 5040);
      second = polynomial(d, w, -1.0 / 3, 1.0 / 4, -1.0 / 10, 1.0 / 36, -1.0 / 168);
      third = polynomial(d, w, 1.0 / 10, -1.0 / 12, 1.0 / 28);
      fourth = constant(d, -1.0 / 42);
    }
    const V rest = hn::MulAdd(z, hn::MulAdd(z, hn::MulAdd(z, fourth, third), second), hn::Mul(w, first));
    const V line = hn::Mul(slope, delta);
    return hn::Add(start, hn::MulAdd(line, rest, line));
  }
};

}  // namespace detail

template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V one = hn::Set(d, 1);
  const V a = hn::Abs(x);
  if constexpr (kSingle<D>) {  // 1 - exp(p(x)) with p = log(erfc) on [1, 4.1]: no division; relative error 2^-29.8
    const V b = at_most(constant(d, 4.1), a);
    const V exponent =
        polynomial(d, b, -0.000341529256, -1.12708916, -0.638144882, -0.103106709, 0.0218380410, -0.00294765235, 0.000186378572);
    V n;
    const V r = detail::reduce_by_ln2(d, exponent, n);
    const V far = hn::NegMulAdd(hn::Add(one, detail::expm1_reduced(d, r)), detail::power_of_two(d, n), one);
    return hn::IfThenElse(hn::Lt(a, one), detail::erf_near_zero(d, x), hn::CopySign(far, x));
  } else {
    const detail::ErfStep<D, V> step(d, at_most(constant(d, 6.0), a));
    const V value = step.template from<false>(d, step.look_up(d, simd::kErfTable), step.look_up(d, simd::kErfSlope));
    return hn::CopySign(at_most(one, value), x);
  }
}

/// 1 - erf(x), relative to the result also where that is tiny.
template <class D, class V>
HWY_INLINE V erfc(D d, V x) {
  const V a = hn::Abs(x), two = constant(d, 2.0);
  const auto negative = hn::Lt(x, hn::Zero(d)), near = hn::Lt(a, constant(d, 5.0));
  V by_table = x;
  if constexpr (!kSingle<D>) {
    const detail::ErfStep<D, V> step(d, at_most(constant(d, 5.0), a));
    const V there = step.look_up(d, simd::kErfcTable), slope = step.look_up(d, simd::kErfSlope);
    by_table = step.template from<true>(d, hn::IfThenElse(negative, hn::Sub(two, there), there),
                                        hn::IfThenElse(negative, slope, hn::Neg(slope)));
    if (HWY_LIKELY(hn::AllTrue(d, near))) return by_table;
  }
  const V positive = detail::erfc_positive(d, a);
  const V far = hn::IfThenElse(negative, hn::Sub(two, positive), positive);
  if constexpr (kSingle<D>)
    return hn::IfThenElse(hn::Lt(a, constant(d, 0.5)), hn::Sub(hn::Set(d, 1), detail::erf_near_zero(d, x)), far);
  return hn::IfThenElse(near, by_table, far);  // as in any other vector
}

/// erfc(-x / sqrt(2)) / 2, relative to the result also where that is tiny: exp(-x^2 / 2) times a slowly varying factor, x^2 / 2
/// formed exactly. One division.
template <class D, class V>
HWY_INLINE V normal_cdf(D d, V x) {
  const V one = hn::Set(d, 1), half = constant(d, 0.5);
  const V b = at_most(constant(d, kSingle<D> ? 15.0 : 39.0), hn::Abs(x));  // underflows at 14.2 (38.5)
  V n, factor;
  const V e = detail::exp_of_square(d, b, 0.5, n);
  if constexpr (kSingle<D>) {
    factor = detail::half_erfcx_single(d, hn::Div(one, hn::MulAdd(constant(d, 0.35), b, one)));
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
