// exp for softmax, in registers: 2^x by a polynomial on [-1/2, 1/2], times a power of two made of bits.
// Relative error of the polynomial: float32 4e-9 (total about 1 ULP), float64 8e-18. Its constant term is exactly 1: exp(0) = 1.
// Not simd/math_exp.h's, which clamps x and rounds subnormal results: no exponent of softmax is large, and tiny weights are 0.

#if defined(DECKLE_ATTENTION_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_EXP_INL_H_
#undef DECKLE_ATTENTION_EXP_INL_H_
#else
#define DECKLE_ATTENTION_EXP_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr double kLog2E = 1.4426950408889634;

template <class D, class V = hn::Vec<D>, hwy::EnableIf<sizeof(hn::TFromD<D>) == 4>* = nullptr>
HWY_INLINE V exp2_polynomial(D d, V f) {
  V p = hn::Set(d, 0.00015453162945120691f);
  p = hn::MulAdd(p, f, hn::Set(d, 0.0013390863364671234f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0096180825572778524f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.055503571142190782f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022650760568126f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.69314718802622877f));
  return hn::MulAdd(p, f, hn::Set(d, 1.0f));
}

template <class D, class V = hn::Vec<D>, hwy::EnableIf<sizeof(hn::TFromD<D>) == 8>* = nullptr>
HWY_INLINE V exp2_polynomial(D d, V f) {
  V p = hn::Set(d, 4.4549605981865186e-10);
  p = hn::MulAdd(p, f, hn::Set(d, 7.0725859492692234e-09));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0178062445845774e-07));
  p = hn::MulAdd(p, f, hn::Set(d, 1.3215442587921689e-06));
  p = hn::MulAdd(p, f, hn::Set(d, 1.5252733829836119e-05));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0001540353044173605));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0013333558146416936));
  p = hn::MulAdd(p, f, hn::Set(d, 0.0096181291076068882));
  p = hn::MulAdd(p, f, hn::Set(d, 0.055504108664821597));
  p = hn::MulAdd(p, f, hn::Set(d, 0.24022650695910097));
  p = hn::MulAdd(p, f, hn::Set(d, 0.69314718055994529));
  return hn::MulAdd(p, f, hn::Set(d, 1.0));
}

/// 2^x for x < 127 (float64: 1023). Exactly 0 where the result would not be a normal number, -inf included; NaN for NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_flushed(D d, V x) {
  using T = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  constexpr bool kSingle = sizeof(T) == 4;
  constexpr int kMantissaBits = kSingle ? 23 : 52;
  // Adding 1.5 * 2^mantissa rounds x to an integer and leaves it in the low bits: no conversion, and additions overlap with the
  // FMAs. With the bias of exponents added as well these bits are the exponent of a power of two.
  const V magic = hn::Set(d, kSingle ? static_cast<T>(0x1.8p23 + 127) : static_cast<T>(0x1.8p52 + 1023));
  const V shifted = hn::Add(x, magic);
  const V fraction = exp2_polynomial(d, hn::Sub(x, hn::Sub(shifted, magic)));
  // Multiplied, not added to the bits of the fraction, which takes as long: of a NaN with low bits, such as a GPU's 0x7fffffff,
  // the sum would be a number.
  const V scaled = hn::Mul(fraction, hn::BitCast(d, hn::ShiftLeft<kMantissaBits>(hn::BitCast(di, shifted))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, kSingle ? static_cast<T>(-126) : static_cast<T>(-1022))), scaled);
}

/// exp(z - reference). Subtracting before scaling costs an addition, which overlaps with the FMAs, and avoids the error of a
/// large reference: |reference| 2^-24 in float32.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_minus(D d, V z, V reference) {
  return exp2_flushed(d, hn::Mul(hn::Sub(z, reference), hn::Set(d, static_cast<hn::TFromD<D>>(kLog2E))));
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
