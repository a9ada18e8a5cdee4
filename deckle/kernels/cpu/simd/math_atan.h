// atan and atan2.
//
// Both are the angle of a point of the first quadrant, atan(a / b), mirrored: t = min / max is in [0, 1]; above tan(pi/8) it
// becomes (t - 1) / (t + 1), which leaves an odd polynomial on |t| <= 0.4143. atan2 of float computes in double, atan of float
// does not. One division each, of operands chosen among those of the ranges: with two, a vector of doubles of AVX-512 takes 12.5
// ns in place of 7.4 (atan), of floats 25.5 in place of 18.4 (atan2; Emerald Rapids).
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_ATAN_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_ATAN_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_ATAN_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_ATAN_H
#endif

#include "deckle/kernels/cpu/simd/math_basic.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace detail {

/// Doubles: (atan(u) / u - 1) / u^2 for z = u^2, |u| <= tan(pi / 8). For results that are rounded to float, `single` chooses the
/// shorter polynomial.
template <bool single, class D, class V>
HWY_INLINE V atan_tail_double(D d, V z) {
  if constexpr (single) {  // relative error 2^-35
    return polynomial(d, z, -0.333333325, 0.199999052, -0.142820421, 0.110450936, -0.0847840641, 0.0474827556);
  } else {  // 2^-64
    return polynomial(d, z, -0.33333333333333328, 0.19999999999997694, -0.14285714285391080, 0.11111111088369445,
                      -0.090909081514521234, 0.076922829154130523, -0.066662290751292023, 0.058770445243033933,
                      -0.052185508812665095, 0.045041459355563129, -0.033488364591325546, 0.015209299686509577);
  }
}

/// Doubles: atan(a / b) in [0, pi/2] for a, b >= 0; 0 / 0 counts as 0 and inf / inf as 1, as atan2 wants.
template <bool single, class D, class V>
HWY_INLINE V first_quadrant_angle(D d, V a, V b) {
  const auto steep = hn::Gt(a, b), equal = hn::Eq(a, b);
  V small = hn::Min(a, b), large = hn::Max(a, b);  // NaN is the caller's
  const auto shifted =
      hn::Or(hn::Gt(small, hn::Mul(large, constant(d, 0.41421356237309503))), hn::And(equal, hn::Gt(small, hn::Zero(d))));
  if constexpr (!single) {  // their sum is to stay finite; of numbers as large as that no half is rounded
    const auto huge = hn::Gt(large, constant(d, 0x1p1000));
    const V scale = hn::IfThenElse(huge, constant(d, 0.5), hn::Set(d, 1));
    small = hn::Mul(small, scale);
    large = hn::Mul(large, scale);
  }
  const V above = hn::IfThenElse(shifted, hn::Sub(small, large), small);
  const V below = hn::IfThenElse(shifted, hn::Add(small, large), large);
  const V u = hn::IfThenZeroElse(equal, hn::Div(above, below));
  const V z = hn::Mul(u, u);
  const V angle = hn::MulAdd(hn::Mul(z, u), atan_tail_double<single>(d, z), u);
  const V turned = hn::IfThenElse(steep, hn::Neg(angle), angle);
  const V eighth = constant(d, 0.78539816339744828), eighth_low = constant(d, 3.0616169978683830e-17);
  const V base = hn::IfThenElse(shifted, eighth, hn::IfThenElse(steep, hn::Add(eighth, eighth), hn::Zero(d)));
  if constexpr (single) return hn::Add(base, turned);
  const V low = hn::IfThenElse(shifted, eighth_low, hn::IfThenElse(steep, hn::Add(eighth_low, eighth_low), hn::Zero(d)));
  return hn::Add(base, hn::Add(turned, low));
}

template <bool single, class D, class V>
HWY_INLINE V atan2_double(D d, V y, V x) {
  const V angle = first_quadrant_angle<single>(d, hn::Abs(y), hn::Abs(x));
  const V pi = constant(d, 3.1415926535897931), pi_low = constant(d, 1.2246467991473532e-16);
  const V mirrored = hn::Add(hn::Sub(pi, angle), pi_low);
  const V half = hn::IfThenElse(hn::Lt(hn::CopySign(hn::Set(d, 1), x), hn::Zero(d)), mirrored, angle);  // -0 is left of 0
  const auto unordered = hn::Or(hn::IsNaN(x), hn::IsNaN(y));
  return hn::IfThenElse(unordered, hn::Add(x, y), hn::CopySign(half, y));
}

/// atan(a) is pi/4 + atan((a - 1) / (a + 1)), and pi/2 + atan(-1 / a) from tan(3 pi/8) on.
template <class D, class V>
HWY_INLINE V atan_by_ranges(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1);
  const auto shifted = hn::Gt(a, constant(d, 0.41421356237309503)), steep = hn::Gt(a, constant(d, 2.4142135623730949));
  const V above = hn::IfThenElse(steep, hn::Neg(one), hn::Sub(a, one)), below = hn::IfThenElse(steep, a, hn::Add(a, one));
  const V u = hn::Div(hn::IfThenElse(shifted, above, a), hn::IfThenElse(shifted, below, one));
  const V z = hn::Mul(u, u);
  V p;
  if constexpr (kSingle<D>) {
    p = polynomial(d, z, -0.333333155, 0.199984894, -0.142438488, 0.105960017, -0.0608345376);  // relative error 2^-30
  } else {
    p = atan_tail_double<false>(d, z);
  }
  const V quarter = constant(d, 1.5707963267948966), half = constant(d, 0.5);
  const V quarter_low = constant(d, kSingle<D> ? -4.37113883e-08 : 6.123233995736766e-17);
  const V base = hn::IfThenElseZero(shifted, hn::IfThenElse(steep, quarter, hn::Mul(quarter, half)));
  const V low = hn::IfThenElseZero(shifted, hn::IfThenElse(steep, quarter_low, hn::Mul(quarter_low, half)));
  return hn::CopySign(hn::Add(base, hn::Add(u, hn::MulAdd(hn::Mul(z, u), p, low))), x);
}

}  // namespace detail

template <class D, class V>
HWY_INLINE V atan(D d, V x) {
  return detail::atan_by_ranges(d, x);
}

/// The angle of the point (x, y) in [-pi, pi].
template <class D, class V>
HWY_INLINE V atan2(D d, V y, V x) {
  if constexpr (kSingle<D>) {
    return in_double(
        d, [](auto dd, auto b, auto a) HWY_ATTR { return detail::atan2_double<true>(dd, b, a); }, y, x);
  } else {
    return detail::atan2_double<false>(d, y, x);
  }
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
