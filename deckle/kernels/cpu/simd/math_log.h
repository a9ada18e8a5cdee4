// log and its relatives.
//
// x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). float: log(1 + f) = f - f^2/2 + f^3 p(f). double: with
// s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - (f^2/2 - s (f^2/2 + s^2 p(s^2))).
//
// AVX-512 splits x in two instructions that know subnormals, zero, infinity and NaN: a vector of floats takes 4.1 ns in place of
// 6.7, of doubles 6.1, nearly all of it the division, in place of 8.3 (Emerald Rapids).
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_LOG_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_LOG_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_LOG_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_LOG_H
#endif

#include "deckle/kernels/cpu/simd/math_exp.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace detail {

#if HWY_TARGET == HWY_AVX3
/// NaN of negative numbers, and of -0 what 0 gives.
constexpr auto kLogSigns = static_cast<_MM_MANTISSA_SIGN_ENUM>(_MM_MANT_SIGN_zero | _MM_MANT_SIGN_nan);
/// Whether split_exponent gives 1 and an infinite k of 0 and infinity, and NaN where log does: the limits need no care then.
template <class V>
inline constexpr bool kSplitsLimits = sizeof(V) == 64;
#else
template <class V>
inline constexpr bool kSplitsLimits = false;
#endif

/// Returns 1 + f in [sqrt(1/2), sqrt(2)) and sets k; x > 0 and finite (other inputs give a meaningless result, or see above).
template <class D, class V>
HWY_INLINE V split_exponent(D d, V x, V& k) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(V) == 64) {
    const V one = hn::Set(d, 1), half = constant(d, 0.5), root = constant(d, 1.4142135623730951);
    if constexpr (kSingle<D>) {  // of |x| in [1, 2), NaN of negative ones; above the root the half
      const V whole{_mm512_getmant_ps(x.raw, _MM_MANT_NORM_1_2, kLogSigns)}, exponent{_mm512_getexp_ps(x.raw)};
      const __mmask16 above = _mm512_cmp_ps_mask(whole.raw, root.raw, _CMP_GE_OQ);
      k = V{_mm512_mask_add_ps(exponent.raw, above, exponent.raw, one.raw)};
      return V{_mm512_mask_mul_ps(whole.raw, above, whole.raw, half.raw)};
    } else {
      const V whole{_mm512_getmant_pd(x.raw, _MM_MANT_NORM_1_2, kLogSigns)}, exponent{_mm512_getexp_pd(x.raw)};
      const __mmask8 above = _mm512_cmp_pd_mask(whole.raw, root.raw, _CMP_GE_OQ);
      k = V{_mm512_mask_add_pd(exponent.raw, above, exponent.raw, one.raw)};
      return V{_mm512_mask_mul_pd(whole.raw, above, whole.raw, half.raw)};
    }
  }
#endif
  const hn::RebindToUnsigned<D> du;
  using U = hn::TFromD<decltype(du)>;
  constexpr int kBits = kSingle<D> ? 23 : 52;
  constexpr U kOne = kSingle<D> ? 0x3F800000u : 0x3FF0000000000000u;
  constexpr U kSqrtHalf = kSingle<D> ? 0x3F3504F3u : 0x3FE6A09E667F3BCDu;
  constexpr U kMantissa = (U{1} << kBits) - 1;
  const auto subnormal = hn::Lt(x, hn::Set(d, std::numeric_limits<hn::TFromD<D>>::min()));
  const V lift = constant(d, kSingle<D> ? 0x1p24 : 0x1p54);
  const auto bits = hn::BitCast(du, hn::IfThenElse(subnormal, hn::Mul(x, lift), x));
  const auto shifted = hn::Add(bits, hn::Set(du, kOne - kSqrtHalf));
  // Converts the exponent field to floating point by placing it in the low bits of 2^23 (2^52).
  const V high = constant(d, kSingle<D> ? 0x1p23 : 0x1p52);
  const V field = hn::BitCast(d, hn::Or(hn::ShiftRight<kBits>(shifted), hn::BitCast(du, high)));
  const V bias = constant(d, kSingle<D> ? 0x1p23 + 127 : 0x1p52 + 1023);
  k = hn::Sub(hn::Sub(field, bias), hn::IfThenElseZero(subnormal, constant(d, kSingle<D> ? 24.0 : 54.0)));
  return hn::BitCast(d, hn::Add(hn::And(shifted, hn::Set(du, kMantissa)), hn::Set(du, kSqrtHalf)));
}

/// log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)).
template <class D, class V>
HWY_INLINE V log_tail(D d, V f) {
  const V square_half = hn::Mul(constant(d, 0.5), hn::Mul(f, f));
  if constexpr (kSingle<D>) {  // relative error of the whole 2^-27.3
    const V p = polynomial(d, f, 0.333333317, -0.250008210, 0.200012270, -0.166233583, 0.142017539, -0.131601725, 0.127616067,
                           -0.0763455643);
    return hn::MulSub(hn::Mul(hn::Mul(f, f), f), p, square_half);
  } else {  // 2^-59.5
    const V s = hn::Div(f, hn::Add(constant(d, 2.0), f));
    const V z = hn::Mul(s, s);
    const V p = polynomial(d, z, 0.66666666666667344, 0.39999999999414680, 0.28571428742387356, 0.22222198573206383,
                           0.18183564325181668, 0.15314050572246585, 0.14795949530768013);
    return hn::MulSub(s, hn::MulAdd(z, p, square_half), square_half);
  }
}

/// Handles the special cases: log(0) = -inf, log(x < 0) = NaN, log(inf) = inf, log(NaN) = NaN.
template <class D, class V>
HWY_INLINE V log_limits(D d, V x, V result) {
  if constexpr (kSplitsLimits<V>) return result;
  const V zero = hn::Zero(d);
  const V from_zero = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity(d)), not_a_number(d));
  const V in_range = hn::IfThenElse(hn::Lt(x, infinity(d)), result, x);
  return hn::IfThenElse(hn::Le(x, zero), from_zero, in_range);
}

/// log(2^k (1 + f)). Both parts of ln 2 are positive, so that an infinite k gives an infinite result.
template <class D, class V>
HWY_INLINE V log_of_parts(D d, V k, V f) {
  const V low = hn::MulAdd(k, constant(d, kSingle<D> ? 3.1946184945309415e-05 : 1.8206359985041462e-09), log_tail(d, f));
  return hn::MulAdd(k, constant(d, kSingle<D> ? 0x1.62ep-1 : 0x1.62e42fep-1), hn::Add(f, low));
}

}  // namespace detail

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  V k;
  const V f = hn::Sub(detail::split_exponent(d, x, k), hn::Set(d, 1));
  return detail::log_limits(d, x, detail::log_of_parts(d, k, f));
}

/// Exact for powers of two.
template <class D, class V>
HWY_INLINE V log2(D d, V x) {
  V k;
  const V f = hn::Sub(detail::split_exponent(d, x, k), hn::Set(d, 1));
  const V mantissa = hn::Add(f, detail::log_tail(d, f));
  return detail::log_limits(d, x, hn::MulAdd(mantissa, constant(d, 1.4426950408889634), k));
}

template <class D, class V>
HWY_INLINE V log10(D d, V x) {
  V k;
  const V f = hn::Sub(detail::split_exponent(d, x, k), hn::Set(d, 1));
  const V mantissa = hn::Add(f, detail::log_tail(d, f));
  const V low = hn::MulAdd(k, constant(d, kSingle<D> ? 4.6050389811952e-6 : 1.1451100898021838e-10),
                           hn::Mul(mantissa, constant(d, 0.43429448190325183)));
  return detail::log_limits(d, x, hn::MulAdd(k, constant(d, kSingle<D> ? 0x1.344p-2 : 0x1.34413508p-2), low));
}

/// log(1 + x), also for tiny x: the rounding error of 1 + x is carried along.
template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  const V one = hn::Set(d, 1);
  V error;
  const V u = two_sum(one, x, error);
  V k;
  const V mantissa = detail::split_exponent(d, u, k);
  const V shrink = detail::power_of_two(d, at_least(constant(d, -100.0), hn::Neg(k)));
  const V f = hn::MulAdd(error, shrink, hn::Sub(mantissa, one));
  const V result = detail::log_of_parts(d, k, f);
  if constexpr (detail::kSplitsLimits<V>) {  // all of it holds but at -1, infinity and 0, where nothing is to be added
    const auto limit = hn::Or(hn::Eq(hn::Abs(k), infinity(d)), hn::Eq(x, hn::Zero(d)));
    return hn::IfThenElse(limit, hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, hn::Add(k, mantissa)), result);  // NaN of -inf
  }
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, detail::log_limits(d, u, result));
}

/// log(1 + exp(x)).
template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  return hn::Add(at_least(hn::Zero(d), x), log1p(d, exp(d, hn::Neg(hn::Abs(x)))));
}

/// log(sigmoid(x)).
template <class D, class V>
HWY_INLINE V log_sigmoid(D d, V x) {
  return hn::Sub(at_most(hn::Zero(d), x), log1p(d, exp(d, hn::Neg(hn::Abs(x)))));
}

/// softplus(x) - x t, as log(1 + exp(-|x|)) + x (1 - t) for positive x and - x t for others: nothing cancels where t is near
/// sigmoid(x). An infinite x that agrees with t has loss 0.
template <class D, class V>
HWY_INLINE V logistic_loss(D d, V x, V t) {
  const V one = hn::Set(d, 1);
  const auto positive = hn::Gt(x, hn::Zero(d));
  const V wrong = hn::IfThenElse(positive, hn::Sub(one, t), t);  // target of the less likely class
  const V linear =
      hn::IfThenElse(hn::Eq(wrong, hn::Zero(d)), hn::Zero(d), hn::Mul(hn::IfThenElse(positive, x, hn::Neg(x)), wrong));
  const V rest = log1p(d, exp(d, hn::Neg(hn::Abs(x))));  // NaN with x
  return hn::Add(linear, rest);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
