// Bits of integers, two's complement.
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_BITS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_BITS_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_BITS_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_BITS_H
#endif

#include "deckle/kernels/cpu/simd/math_quotient.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

template <class D, class V>
HWY_INLINE V bitwise_and(D, V x, V y) {
  return hn::And(x, y);
}
template <class D, class V>
HWY_INLINE V bitwise_or(D, V x, V y) {
  return hn::Or(x, y);
}
template <class D, class V>
HWY_INLINE V bitwise_xor(D, V x, V y) {
  return hn::Xor(x, y);
}

/// By 64 or more, or by less than 0: no bits are left.
template <class D, class V>
HWY_INLINE V left_shift(D d, V x, V y) {
  return detail::each_lane(d, x, y, [](int64_t value, int64_t by) {
    return by < 0 || by > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(value) << by);
  });
}

/// The sign moves in; by 64 or more, or by less than 0, nothing else is left.
template <class D, class V>
HWY_INLINE V right_shift(D d, V x, V y) {
  return detail::each_lane(d, x, y, [](int64_t value, int64_t by) { return value >> (by < 0 || by > 63 ? 63 : by); });
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
