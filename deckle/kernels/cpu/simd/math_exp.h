// exp and its relatives.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) = 1 + r + r^2 p(r); times 2^n in two factors, so that subnormal results are
// rounded once.
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_EXP_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_EXP_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_EXP_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_EXP_H
#endif

#include "deckle/kernels/cpu/simd/math_basic.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace detail {

/// Adding this to a number below 2^22 (2^51) rounds it to an integer in the low bits of the result.
template <class D>
HWY_INLINE hn::Vec<D> rounder(D d) {
  return constant(d, kSingle<D> ? 0x1.8p23 : 0x1.8p52);
}

/// 2^n for an integer n in the range of normal exponents.
template <class D, class V>
HWY_INLINE V power_of_two(D d, V n) {
  const hn::RebindToUnsigned<D> du;
  const V biased = hn::Add(n, constant(d, kSingle<D> ? 0x1.8p23 + 127 : 0x1.8p52 + 1023));
  return hn::BitCast(d, hn::ShiftLeft < kSingle<D> ? 23 : 52 > (hn::BitCast(du, biased)));
}

/// x 2^n for an integer n, |n| <= 252 (float), 2044 (double); rounds once.
template <class D, class V>
HWY_INLINE V scale(D d, V x, V n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    if constexpr (kSingle<D>)
      return V{_mm512_scalef_ps(x.raw, n.raw)};
    else
      return V{_mm512_scalef_pd(x.raw, n.raw)};
  }
#endif
  const V half = hn::Sub(hn::MulAdd(n, constant(d, 0.5), rounder(d)), rounder(d));
  return hn::Mul(hn::Mul(x, power_of_two(d, half)), power_of_two(d, hn::Sub(n, half)));
}

/// Splits x into n and r; x is already clamped (NaN passes).
template <class D, class V>
HWY_INLINE V reduce_by_ln2(D d, V x, V& n) {
  n = hn::Sub(hn::MulAdd(x, constant(d, 1.4426950408889634), rounder(d)), rounder(d));
  // The upper part of ln 2 has so few bits that n times it is exact without FMA.
  const V high = hn::NegMulAdd(n, constant(d, kSingle<D> ? 0x1.63p-1 : 0x1.62e42ffp-1), x);
  return hn::NegMulAdd(n, constant(d, kSingle<D> ? -2.1219444005469058e-4 : -4.2009150726810847e-11), high);
}

/// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2.
template <class D, class V>
HWY_INLINE V expm1_tail(D d, V r) {
  if constexpr (kSingle<D>) {  // relative error of exp 2^-28.3
    return polynomial(d, r, 0.499999934, 0.166665204, 0.0416683908, 0.00836874511, 0.00138145401);
  } else {  // 2^-57.9
    return polynomial(d, r, 0.50000000000000107, 0.16666666666666412, 0.041666666666529729, 0.0083333333334949804,
                      0.0013888888943759893, 0.00019841269505766042, 2.4801492949664840e-5, 2.7557586811282349e-6,
                      2.7630306247961875e-7, 2.5000016377888091e-8);
  }
}

/// exp(r) - 1.
template <class D, class V>
HWY_INLINE V expm1_reduced(D d, V r) {
  return hn::MulAdd(hn::Mul(r, r), expm1_tail(d, r), r);
}

/// exp(r) for |r| <= ln 2 / 2.
template <class D, class V>
HWY_INLINE V exp_reduced(D d, V r) {
  const V one = hn::Set(d, 1);
  return hn::MulAdd(r, hn::MulAdd(r, expm1_tail(d, r), one), one);
}

/// exp(x + low) for a tiny `low`.
template <class D, class V>
HWY_INLINE V exp_sum(D d, V x, V low) {
  const V clamped = at_least(constant(d, kSingle<D> ? -105.0 : -746.0), at_most(constant(d, kSingle<D> ? 89.0 : 710.0), x));
  V n;
  const V r = hn::Add(reduce_by_ln2(d, clamped, n), low);
  return scale(d, exp_reduced(d, r), n);
}

}  // namespace detail

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const V clamped = at_least(constant(d, kSingle<D> ? -105.0 : -746.0), at_most(constant(d, kSingle<D> ? 89.0 : 710.0), x));
  V n;
  const V r = detail::reduce_by_ln2(d, clamped, n);
  return detail::scale(d, detail::exp_reduced(d, r), n);
}

template <class D, class V>
HWY_INLINE V exp2(D d, V x) {
  const V clamped = at_least(constant(d, kSingle<D> ? -152.0 : -1078.0), at_most(constant(d, kSingle<D> ? 129.0 : 1025.0), x));
  const V n = hn::Sub(hn::Add(clamped, detail::rounder(d)), detail::rounder(d));
  const V r = hn::Sub(clamped, n);
  V p;
  if constexpr (kSingle<D>) {  // relative error 2^-28.9
    p = polynomial(d, r, 0.693147203, 0.240226479, 0.0555033247, 0.00961843736, 0.00133988744, 0.000153533616);
  } else {  // 2^-64
    p = polynomial(d, r, 0.69314718055994531, 0.24022650695910072, 0.055504108664821687, 0.0096181291076283295,
                   0.0013333558146392691, 0.00015403530393640760, 1.5252733854318467e-5, 1.3215486594884348e-6,
                   1.0178051941844220e-7, 7.0549744871599099e-9, 4.4565705305895377e-10, 2.5625410148108560e-11);
  }
  return detail::scale(d, hn::MulAdd(r, p, hn::Set(d, 1)), n);
}

/// exp(x) - 1: 2^n (exp(r) - 1 + (1 - 2^-n)).
template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  const V clamped = at_least(constant(d, kSingle<D> ? -18.0 : -40.0), at_most(constant(d, kSingle<D> ? 89.0 : 710.0), x));
  V n;
  const V r = detail::reduce_by_ln2(d, clamped, n);
  const V inverse = detail::power_of_two(d, at_least(constant(d, -100.0), hn::Neg(n)));
  const V reduced = hn::Add(detail::expm1_reduced(d, r), hn::Sub(hn::Set(d, 1), inverse));
  return hn::CopySign(detail::scale(d, reduced, n), x);  // the sign of zero
}

/// 1 / (1 + exp(-x)), relative to the result also where that is tiny.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1);
  const V e = exp(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

/// e / (e + 2) with e = expm1(2 |x|).
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  const V twice = at_most(constant(d, kSingle<D> ? 20.0 : 40.0), hn::Add(hn::Abs(x), hn::Abs(x)));
  V n;
  const V r = detail::reduce_by_ln2(d, twice, n);
  const V inverse = detail::power_of_two(d, hn::Neg(n));
  // 2^-n e, so that the quotient needs no scaling of its own.
  const V reduced = hn::Add(detail::expm1_reduced(d, r), hn::Sub(hn::Set(d, 1), inverse));
  return hn::CopySign(hn::Div(reduced, hn::MulAdd(constant(d, 2.0), inverse, reduced)), x);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
