// x^y = exp(y log x). float: in double, as accurate as floats need. double: log x as a sum of two doubles (about 2^-64 relative),
// so that the exponent, up to 745, is still right to the last bits.
//
//   pow of floats, version                                                  ns of a vector of AVX-512, Emerald Rapids
//   exp(y log x) by the functions of doubles, all limits chosen at the end                                48.6
//   the logarithm without a division, both as accurate as floats need; limits only where a lane has one   30.9
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_POW_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_POW_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_POW_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_POW_H
#endif

#include "deckle/kernels/cpu/simd/math_log.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace detail {

/// log(x) = result + low for finite x > 0.
template <class D, class V>
HWY_INLINE V log_in_two(D d, V x, V& low) {
  V k;
  const V m = split_exponent(d, x, k);
  const V one = hn::Set(d, 1);
  const V f = hn::Sub(m, one);  // exact
  // s = f / (2 + f) and its rounding error.
  V denominator_low;
  const V denominator = two_sum(m, one, denominator_low);
  const V s = hn::Div(f, denominator);
  V product_low;
  const V product = two_product(d, s, denominator, product_low);
  const V s_low = hn::Div(hn::NegMulAdd(s, denominator_low, hn::Sub(hn::Sub(f, product), product_low)), denominator);
  // 2 atanh(s) = 2 s + 2/3 s^3 + s^5 q(s^2); the first two terms in two parts each.
  V z_low, cube_low, third_low;
  const V z = two_product(d, s, s, z_low);
  const V cube = two_product(d, z, s, cube_low);
  const V cube_rest = hn::Add(cube_low, hn::MulAdd(z_low, s, hn::Mul(hn::Mul(constant(d, 3.0), z), s_low)));
  const V third = two_product(d, cube, constant(d, 2.0 / 3), third_low);
  const V third_rest =
      hn::MulAdd(cube_rest, constant(d, 2.0 / 3), hn::MulAdd(cube, constant(d, 0x1.5555555555555p-55), third_low));
  const V q = polynomial(d, z, 0.39999999999780789, 0.28571428671976812, 0.22222205033512900, 0.18183257650490603,
                         0.15321323879527986, 0.14727756580992162);
  const V fifth = hn::Mul(hn::Mul(z, cube), q);
  // k ln 2 + 2 s + ..., largest first; k ln2_high is exact.
  V low1, low2;
  const V sum1 = two_sum(hn::Mul(k, constant(d, 0x1.62e42ffp-1)), hn::Add(s, s), low1);
  const V sum2 = two_sum(sum1, third, low2);
  V ln2_low_error;
  const V ln2_low = two_product(d, k, constant(d, -4.2009150726810847e-11), ln2_low_error);
  const V rest = hn::Add(hn::Add(low1, low2), hn::Add(hn::Add(hn::Add(s_low, s_low), third_rest), hn::Add(fifth, ln2_low)));
  const V high = hn::Add(sum2, rest);
  low = hn::Sub(rest, hn::Sub(high, sum2));
  return high;
}

/// Doubles: x^y for x >= 0, accurate enough to be rounded to float: 2^-32 relative to the result. The logarithm without a
/// division.
template <class D, class V>
HWY_INLINE V pow_for_float(D d, V x, V y) {
  V k;
  const V f = hn::Sub(split_exponent(d, x, k), hn::Set(d, 1));
  const V square = hn::Mul(f, f);
  const V odd = polynomial(d, square, -0.25000001125729897, -0.16666532457562802, -0.12505713626616560, -0.098893836608172911,
                           -0.092869513805648688, -0.048226298473147318);
  const V p = hn::MulAdd(f, odd,
                         polynomial(d, square, 0.33333333399184369, 0.19999989260329077, 0.14286179126969318, 0.11105471166527686,
                                    0.090401957871073764, 0.091157763655306867));
  const V log_of_mantissa = hn::MulAdd(square, hn::MulAdd(f, p, constant(d, -0.5)), f);  // 2^-38
  const V logarithm = log_limits(d, x, hn::MulAdd(k, constant(d, 0.69314718055994531), log_of_mantissa));
  // Beyond +-200 floats are 0 or infinite; the double is neither.
  const V exponent = at_least(constant(d, -200.0), at_most(constant(d, 200.0), hn::Mul(y, logarithm)));
  V n;
  const V r = reduce_by_ln2(d, exponent, n), one = hn::Set(d, 1);
  const V q = polynomial(d, r, 0.50000000678403153, 0.16666665867028797, 0.041666294362914419, 0.0083334973370136834,
                         0.0013944703672811193, 0.00019790299977102488);  // 2^-34
  return hn::Mul(hn::MulAdd(r, hn::MulAdd(r, q, one), one), power_of_two(d, n));
}

/// |x|^y without the special cases of pow, for positive finite x.
template <class D, class V>
HWY_INLINE V pow_positive(D d, V x, V y) {
  V log_low, product_low;
  const V log_high = log_in_two(d, x, log_low);
  // Beyond +-2^900 the result is 0, 1 or infinite regardless of the low parts, whose arithmetic could overflow there.
  const V y_bounded = at_least(constant(d, -0x1p900), at_most(constant(d, 0x1p900), y));
  const V product = two_product(d, y_bounded, log_high, product_low);
  const V low = hn::MulAdd(y_bounded, log_low, product_low);
  const auto small = hn::Lt(hn::Abs(product), constant(d, 800.0));
  return exp_sum(d, product, hn::IfThenElseZero(small, low));
}

}  // namespace detail

/// Of integers, by squaring: exact where it fits, modulo 2^64 elsewhere; y >= 0.
template <class D, class V>
requires(!hwy::IsFloat<hn::TFromD<D>>()) HWY_INLINE V pow(D d, V x, V y) {
  const V one = hn::Set(d, 1), zero = hn::Zero(d);
  V result = one;
  while (true) {
    result = hn::IfThenElse(hn::Eq(hn::And(y, one), one), hn::Mul(result, x), result);
    y = hn::ShiftRight<1>(y);
    if (hn::AllFalse(d, hn::Gt(y, zero))) return result;
    x = hn::Mul(x, x);
  }
}

template <class D, class V>
HWY_INLINE V pow(D d, V x, V y) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1), half = constant(d, 0.5);
  // Exponents frequent in formulas and their derivatives.
  if (hn::AllTrue(d, hn::Eq(y, one))) return x;
  if (hn::AllTrue(d, hn::Eq(y, constant(d, 2.0)))) return hn::Mul(x, x);
  if (hn::AllTrue(d, hn::Eq(y, constant(d, 3.0)))) return hn::Mul(hn::Mul(x, x), x);
  if (hn::AllTrue(d, hn::Eq(y, constant(d, -1.0)))) return hn::Div(one, x);
  const V a = hn::Abs(x);
  const auto regular = hn::And(hn::Gt(a, zero), hn::Lt(a, infinity(d)));
  V result;
  if constexpr (kSingle<D>) {
    result = in_double(
        d, [](auto dd, auto base, auto power) HWY_ATTR { return detail::pow_for_float(dd, base, power); }, a, y);
  } else {
    result = detail::pow_positive(d, hn::IfThenElse(regular, a, one), y);
  }
  if (HWY_LIKELY(hn::AllTrue(d, hn::And(hn::And(regular, hn::Gt(x, zero)), hn::Lt(hn::Abs(y), infinity(d)))))) return result;
  if constexpr (!kSingle<D>) {
    const V from_zero = hn::IfThenElse(hn::Lt(y, zero), infinity(d), zero);  // of |x| = 0; the reverse of |x| = inf
    const V from_infinity = hn::IfThenElse(hn::Lt(y, zero), zero, infinity(d));
    result = hn::IfThenElse(hn::Eq(a, zero), from_zero, result);
    result = hn::IfThenElse(hn::Eq(a, infinity(d)), from_infinity, result);
  }
  // Negative x: only integer exponents; odd ones keep the sign. Values beyond 2^24 (2^53) are even.
  const auto integer = hn::Eq(hn::Floor(y), y);
  const auto odd = hn::AndNot(hn::Eq(hn::Floor(hn::Mul(y, half)), hn::Mul(y, half)), integer);
  result = hn::IfThenElse(odd, hn::CopySign(result, x), result);
  const auto undefined = hn::AndNot(integer, hn::And(hn::Lt(x, zero), hn::Lt(a, infinity(d))));
  result = hn::IfThenElse(undefined, not_a_number(d), result);
  result = hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::IsNaN(y), y, result));
  const auto endless = hn::Eq(hn::Abs(y), infinity(d));
  const auto always_one = hn::Or(hn::Eq(x, one), hn::Or(hn::Eq(y, zero), hn::And(endless, hn::Eq(a, one))));
  return hn::IfThenElse(always_one, one, result);
}

// The derivatives of pow, with their limits at x = 0 and x = inf; ops/functions.yaml has the conventions. r is pow(x, y).

namespace detail {

/// factor x^exponent: 0 where the factor is, even where the power is infinite. NaN stays.
template <class D, class V>
HWY_INLINE V times_power(D d, V x, V factor, V exponent) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1);
  const V nothing = hn::Div(factor, hn::IfThenElse(hn::Eq(x, zero), one, x));
  return hn::IfThenElse(hn::Eq(factor, zero), nothing, hn::Mul(factor, pow(d, x, exponent)));
}

}  // namespace detail

template <class D, class V>
HWY_INLINE V pow_x(D d, V x, V y) {
  return detail::times_power(d, x, y, hn::Sub(y, hn::Set(d, 1)));
}

template <class D, class V>
HWY_INLINE V pow_xx(D d, V x, V y) {
  return detail::times_power(d, x, hn::Mul(y, hn::Sub(y, hn::Set(d, 1))), hn::Sub(y, constant(d, 2.0)));
}

namespace detail {

/// Where x^y is 0 for all exponents near y, whatever the logarithm of x: at 0 for y > 0 (and y = 0, where one says so), at
/// infinity for y < 0.
template <class D, class V>
HWY_INLINE hn::Mask<D> power_is_zero(D d, V x, V y) {
  const V zero = hn::Zero(d);
  return hn::Or(hn::And(hn::Eq(x, zero), hn::Or(hn::Gt(y, zero), hn::Eq(y, zero))),
                hn::And(hn::Eq(x, infinity(d)), hn::Lt(y, zero)));
}

}  // namespace detail

template <class D, class V>
HWY_INLINE V pow_y(D d, V x, V y, V r) {
  return hn::IfThenZeroElse(detail::power_is_zero(d, x, y), hn::Mul(r, log(d, x)));
}

template <class D, class V>
HWY_INLINE V pow_yy(D d, V x, V y, V r) {
  const V logarithm = log(d, x);
  return hn::IfThenZeroElse(detail::power_is_zero(d, x, y), hn::Mul(hn::Mul(r, logarithm), logarithm));
}

// x^(y - 1) (1 + y log x): at x = 0 it falls to -inf for 0 < y < 1; from y = 1 on the value is 0 there and has no logarithm.
template <class D, class V>
HWY_INLINE V pow_xy(D d, V x, V y) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1);
  const auto at_zero = hn::Eq(x, zero);
  const auto flat = hn::Or(hn::And(at_zero, hn::Eq(y, zero)), hn::And(hn::Eq(x, infinity(d)), hn::Lt(y, one)));
  const auto no_logarithm = hn::And(at_zero, hn::Or(hn::Gt(y, one), hn::Eq(y, one)));
  const V factor = hn::IfThenElse(no_logarithm, one, hn::MulAdd(y, log(d, x), one));
  return hn::IfThenZeroElse(flat, hn::Mul(pow(d, x, hn::Sub(y, one)), factor));
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
