// sin, cos and tan.
//
// x = n pi/2 + r, the quadrant n mod 4 chooses polynomial and sign. pi/2 is split into parts of 33, 33 and 53 bits, so that
// n times a part is exact up to 2^20; float reduces in double. Larger arguments, rare in training, go to the C library lane by
// lane.
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_TRIG_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_TRIG_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_TRIG_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_TRIG_H
#endif

#include <cmath>

#include "deckle/kernels/cpu/simd/math_exp.h"
#include "deckle/kernels/cpu/simd/not_equal.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace detail {

/// Largest |x| that reduce_by_half_pi serves.
inline constexpr double kTrigLimit = 0x1p20;

/// For doubles: returns r in [-pi/4, pi/4] and sets quadrant to 0, 1, 2 or 3.
template <class D, class V>
HWY_INLINE V reduce_by_half_pi(D d, V x, V& quadrant) {
  const V n = hn::Sub(hn::MulAdd(x, constant(d, 0.63661977236758134), rounder(d)), rounder(d));
  const V quarter = hn::Floor(hn::Mul(n, constant(d, 0.25)));
  quadrant = hn::NegMulAdd(quarter, constant(d, 4.0), n);
  V r = hn::NegMulAdd(n, constant(d, 0x1.921fb544p+0), x);
  r = hn::NegMulAdd(n, constant(d, 0x1.0b4611a6p-34), r);
  return hn::NegMulAdd(n, constant(d, 0x1.3198a2e037073p-69), r);
}

template <class D, class V>
HWY_INLINE V reduce_angle(D d, V x, V& quadrant) {
  if constexpr (kSingle<D>) {
    // Written twice, but the compiler computes it once.
    quadrant = in_double(
        d,
        [](auto dd, auto angle) HWY_ATTR {
          auto q = angle;
          reduce_by_half_pi(dd, angle, q);
          return q;
        },
        x);
    return in_double(
        d,
        [](auto dd, auto angle) HWY_ATTR {
          auto q = angle;
          return reduce_by_half_pi(dd, angle, q);
        },
        x);
  } else {
    return reduce_by_half_pi(d, x, quadrant);
  }
}

template <class D, class V>
HWY_INLINE V sin_reduced(D d, V r) {
  const V z = hn::Mul(r, r);
  V p;
  if constexpr (kSingle<D>) {  // relative error 2^-28
    p = polynomial(d, z, -0.166666549, 0.00833217815, -0.000195172989);
  } else {  // 2^-58
    p = polynomial(d, z, -0.16666666666666632, 0.0083333333333224246, -0.00019841269829816986, 2.7557313695237596e-6,
                   -2.5050758654857291e-8, 1.5896828012628421e-10);
  }
  return hn::MulAdd(hn::Mul(z, r), p, r);
}

template <class D, class V>
HWY_INLINE V cos_reduced(D d, V r) {
  const V z = hn::Mul(r, r);
  V p;
  if constexpr (kSingle<D>) {  // relative error 2^-33
    p = polynomial(d, z, 0.0416666469, -0.00138873675, 2.44384518e-5);
  } else {  // 2^-64
    p = polynomial(d, z, 0.041666666666666600, -0.0013888888888874139, 2.4801587289491807e-5, -2.7557314355236935e-7,
                   2.0875723683844102e-9, -1.1359669840112872e-11);
  }
  return hn::MulAdd(hn::Mul(z, z), p, hn::NegMulAdd(constant(d, 0.5), z, hn::Set(d, 1)));
}

/// Replaces the lanes of `result` whose |x| exceeds the limit (or is infinite) by function(x).
template <class D, class V, class F>
HWY_INLINE V far_lanes(D d, V x, V result, F function) {
  const auto far = hn::Gt(hn::Abs(x), constant(d, kTrigLimit));
  if (HWY_LIKELY(hn::AllFalse(d, far))) return result;
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (hn::TFromD<D>& lane : lanes) lane = function(lane);
  return hn::IfThenElse(far, hn::Load(d, lanes), result);
}

/// sin(r + (quadrant + shift) pi/2).
template <class D, class V>
HWY_INLINE V sin_of_quadrant(D d, V r, V quadrant) {
  const V half_turns = hn::Floor(hn::Mul(quadrant, constant(d, 0.5)));
  const auto odd = not_equal(hn::Add(half_turns, half_turns), quadrant);
  const V value = hn::IfThenElse(odd, cos_reduced(d, r), sin_reduced(d, r));
  return hn::IfThenElse(hn::Eq(half_turns, hn::Set(d, 1)), hn::Neg(value), value);
}

}  // namespace detail

template <class D, class V>
HWY_INLINE V sin(D d, V x) {
  V quadrant;
  const V r = detail::reduce_angle(d, x, quadrant);
  const V result = detail::sin_of_quadrant(d, r, quadrant);
  const V signed_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);
  return detail::far_lanes(d, x, signed_zero, [](hn::TFromD<D> lane) { return std::sin(lane); });
}

template <class D, class V>
HWY_INLINE V cos(D d, V x) {
  V quadrant;
  const V r = detail::reduce_angle(d, x, quadrant);
  const V next = hn::Add(quadrant, hn::Set(d, 1));  // cos(x) = sin(x + pi/2); 4 is 0
  const V wrapped = hn::IfThenElse(hn::Eq(next, constant(d, 4.0)), hn::Zero(d), next);
  const V result = detail::sin_of_quadrant(d, r, wrapped);
  return detail::far_lanes(d, x, result, [](hn::TFromD<D> lane) { return std::cos(lane); });
}

template <class D, class V>
HWY_INLINE V tan(D d, V x) {
  V quadrant;
  const V r = detail::reduce_angle(d, x, quadrant);
  const V sine = detail::sin_reduced(d, r), cosine = detail::cos_reduced(d, r);
  const V half_turns = hn::Floor(hn::Mul(quadrant, constant(d, 0.5)));
  const auto odd = not_equal(hn::Add(half_turns, half_turns), quadrant);
  const V result = hn::Div(hn::IfThenElse(odd, hn::Neg(cosine), sine), hn::IfThenElse(odd, sine, cosine));
  const V signed_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);
  return detail::far_lanes(d, x, signed_zero, [](hn::TFromD<D> lane) { return std::tan(lane); });
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
