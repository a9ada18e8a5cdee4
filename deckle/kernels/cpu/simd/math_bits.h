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

/// By as many as there are or more, or by less than 0: no bits are left.
template <class D, class V>
HWY_INLINE V left_shift(D d, V x, V y) {
  const hn::RebindToUnsigned<D> words;
  const auto by = hn::BitCast(words, y), most = hn::Set(words, 8 * sizeof(hn::TFromD<D>) - 1);
  const auto shifted = hn::Shl(hn::BitCast(words, x), hn::Min(by, most));
  return hn::BitCast(d, hn::IfThenElseZero(hn::Eq(hn::Min(by, most), by), shifted));
}

/// The sign moves in; by as many as there are bits or more, or by less than 0, nothing else is left.
template <class D, class V>
HWY_INLINE V right_shift(D d, V x, V y) {
  const hn::RebindToUnsigned<D> words;
  const auto most = hn::Set(words, 8 * sizeof(hn::TFromD<D>) - 1);
  return hn::Shr(x, hn::BitCast(d, hn::Min(hn::BitCast(words, y), most)));
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
