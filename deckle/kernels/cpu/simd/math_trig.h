// sin, cos and tan.
//
// x = n pi/2 + r, the quadrant n mod 4 chooses polynomial and sign. pi/2 is split into parts of 33, 33 and 53 bits, so that
// n times a part is exact up to 2^20. float has three parts of 24 bits, whose products a fused multiplication does not round;
// without such multiplications it reduces in double. Larger arguments, rare in training, go to the C library lane by lane.
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_TRIG_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_TRIG_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_TRIG_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_TRIG_H
#endif

#include <cmath>

#include "deckle/kernels/cpu/simd/math_exp.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace detail {

/// Largest |x| that is reduced here.
template <class D>
inline constexpr double kTrigLimit = kSingle<D> ? 0x1p17 : 0x1p20;

/// x = n pi/2 + r + low with |r| up to pi/4 (of float near the limit 0.79); low is 0 of double. `turns` is n + rounder: an
/// integer in the low bits.
template <class V>
struct Angle {
  V turns, r, low;
};

/// For doubles.
template <class D, class V>
HWY_INLINE Angle<V> reduce_by_half_pi(D d, V x) {
  const V turns = hn::MulAdd(x, constant(d, 0.63661977236758134), rounder(d)), n = hn::Sub(turns, rounder(d));
  V r = hn::NegMulAdd(n, constant(d, 0x1.921fb544p+0), x);
  r = hn::NegMulAdd(n, constant(d, 0x1.0b4611a6p-34), r);
  return {turns, hn::NegMulAdd(n, constant(d, 0x1.3198a2e037073p-69), r), hn::Zero(d)};
}

template <class D, class V>
HWY_INLINE Angle<V> reduce_angle(D d, V x) {
  if constexpr (!kSingle<D>) {
    return reduce_by_half_pi(d, x);
  } else {
#if HWY_NATIVE_FMA
    const V turns = hn::MulAdd(x, constant(d, 0.63661977236758134), rounder(d)), n = hn::Sub(turns, rounder(d));
    const V first = hn::NegMulAdd(n, constant(d, 0x1.921fb6p+0), x);  // exact
    const V low = hn::Mul(n, constant(d, 0x1.ee59dap-50));
    return {turns, hn::NegMulAdd(n, constant(d, -0x1.777a5cp-25), first), low};
#else
    // Written twice, but the compiler computes it once.
    const V n = in_double(
        d, [](auto dd, auto angle) HWY_ATTR { return hn::Sub(reduce_by_half_pi(dd, angle).turns, rounder(dd)); }, x);
    const V r = in_double(
        d, [](auto dd, auto angle) HWY_ATTR { return reduce_by_half_pi(dd, angle).r; }, x);
    return {hn::Add(n, rounder(d)), r, hn::Zero(d)};
#endif
  }
}

template <class D, class V>
HWY_INLINE V sin_reduced(D d, V r, V low) {
  const V z = hn::Mul(r, r);
  V p;
  if constexpr (kSingle<D>) {  // relative error 2^-28
    p = polynomial(d, z, -0.166666549, 0.00833217815, -0.000195172989);
  } else {  // 2^-58
    p = polynomial(d, z, -0.16666666666666632, 0.0083333333333224246, -0.00019841269829816986, 2.7557313695237596e-6,
                   -2.5050758654857291e-8, 1.5896828012628421e-10);
  }
  if constexpr (!kSingle<D>) return hn::MulAdd(hn::Mul(z, r), p, r);
  return hn::Add(r, hn::MulAdd(hn::Mul(z, r), p, low));
}

template <class D, class V>
HWY_INLINE V cos_reduced(D d, V r, V low) {
  const V z = hn::Mul(r, r);
  V p;
  if constexpr (kSingle<D>) {  // relative error 2^-33
    p = polynomial(d, z, 0.0416666469, -0.00138873675, 2.44384518e-5);
  } else {  // 2^-64
    p = polynomial(d, z, 0.041666666666666600, -0.0013888888888874139, 2.4801587289491807e-5, -2.7557314355236935e-7,
                   2.0875723683844102e-9, -1.1359669840112872e-11);
  }
  const V start = hn::NegMulAdd(constant(d, 0.5), z, hn::Set(d, 1)), fourth = hn::Mul(z, z);
  if constexpr (!kSingle<D>) return hn::MulAdd(fourth, p, start);
  return hn::Add(start, hn::NegMulAdd(r, low, hn::Mul(fourth, p)));
}

/// Replaces the lanes of `result` whose |x| exceeds the limit (or is infinite) by function(x).
template <class D, class V, class F>
HWY_INLINE V far_lanes(D d, V x, V result, F function) {
  const auto far = hn::Gt(hn::Abs(x), constant(d, kTrigLimit<D>));
  if (HWY_LIKELY(hn::AllFalse(d, far))) return result;
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (hn::TFromD<D>& lane : lanes) lane = function(lane);
  return hn::IfThenElse(far, hn::Load(d, lanes), result);
}

/// n, an integer, in the low bits.
template <class D, class V>
HWY_INLINE auto bits_of(D, V turns) {
  return hn::BitCast(hn::RebindToUnsigned<D>(), turns);
}
template <class D, class Bits>
HWY_INLINE auto is_odd(D d, Bits bits) {
  return hn::RebindMask(d, hn::TestBit(bits, hn::Set(hn::RebindToUnsigned<D>(), 1)));
}

/// sin(angle + turn pi/2).
template <int turn, class D, class V>
HWY_INLINE V sin_of_quadrant(D d, const Angle<V>& angle) {
  const hn::RebindToUnsigned<D> du;
  constexpr int kTop = 8 * sizeof(hn::TFromD<D>) - 1;
  auto bits = bits_of(d, angle.turns);
  if constexpr (turn != 0) bits = hn::Add(bits, hn::Set(du, turn));
  const V cosine = cos_reduced(d, angle.r, angle.low), sine = sin_reduced(d, angle.r, angle.low);
  const V value = hn::IfThenElse(is_odd(d, bits), cosine, sine);
  return hn::Xor(value, hn::BitCast(d, hn::ShiftLeft<kTop>(hn::ShiftRight<1>(bits))));
}

}  // namespace detail

template <class D, class V>
HWY_INLINE V sin(D d, V x) {
  const detail::Angle<V> angle = detail::reduce_angle(d, x);
  const V result = detail::sin_of_quadrant<0>(d, angle);
  const V signed_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);
  return detail::far_lanes(d, x, signed_zero, [](hn::TFromD<D> lane) { return std::sin(lane); });
}

template <class D, class V>
HWY_INLINE V cos(D d, V x) {
  const detail::Angle<V> angle = detail::reduce_angle(d, x);
  const V result = detail::sin_of_quadrant<1>(d, angle);
  return detail::far_lanes(d, x, result, [](hn::TFromD<D> lane) { return std::cos(lane); });
}

template <class D, class V>
HWY_INLINE V tan(D d, V x) {
  const detail::Angle<V> angle = detail::reduce_angle(d, x);
  const V sine = detail::sin_reduced(d, angle.r, angle.low), cosine = detail::cos_reduced(d, angle.r, angle.low);
  const auto odd = detail::is_odd(d, detail::bits_of(d, angle.turns));
  const V result = hn::Div(hn::IfThenElse(odd, hn::Neg(cosine), sine), hn::IfThenElse(odd, sine, cosine));
  const V signed_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);
  return detail::far_lanes(d, x, signed_zero, [](hn::TFromD<D> lane) { return std::tan(lane); });
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
