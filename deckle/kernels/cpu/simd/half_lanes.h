// Halves in registers: widened to floats, and rounded from them.
#if defined(DECKLE_KERNELS_CPU_SIMD_HALF_LANES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_HALF_LANES_H
#undef DECKLE_KERNELS_CPU_SIMD_HALF_LANES_H
#else
#define DECKLE_KERNELS_CPU_SIMD_HALF_LANES_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "deckle/base/half.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace hn = ::hwy::HWY_NAMESPACE;

template <typename T>
concept Half = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

/// Halves of type H, by their bits, as floats.
template <Half H, class D>
HWY_INLINE hn::Vec<D> promote_half(D d, hn::Vec<hn::Rebind<uint16_t, D>> bits) {
  if constexpr (std::is_same_v<H, bfloat16>) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), bits)));
  } else {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
#else  // Highway's emulation does not round as IEEE does
    HWY_ALIGN uint16_t halves[hn::MaxLanes(D())];
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    hn::Store(bits, hn::Rebind<uint16_t, D>(), halves);
    for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = ::deckle::detail::float16_bits_to_float(halves[i]);
    return hn::Load(d, lanes);
#endif
  }
}

/// Floats rounded to halves of type H, to nearest even, by their bits; NaN stays NaN.
template <Half H, class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> demote_half(D d, hn::Vec<D> value) {
  const hn::Rebind<uint16_t, D> halves;
  if constexpr (std::is_same_v<H, bfloat16>) {
    const hn::RebindToUnsigned<D> words;
    const auto bits = hn::BitCast(words, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(words, 0x7fffu)), odd);
    const auto quiet = hn::Or(bits, hn::Set(words, 0x400000u));
    return hn::TruncateTo(halves, hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), quiet, rounded)));
  } else {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
    return hn::BitCast(halves, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value));
#else
    HWY_ALIGN float lanes[hn::MaxLanes(D())];
    HWY_ALIGN uint16_t rounded[hn::MaxLanes(D())];
    hn::Store(value, d, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i) rounded[i] = ::deckle::detail::float_to_float16_bits(lanes[i]);
    return hn::Load(halves, rounded);
#endif
  }
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
