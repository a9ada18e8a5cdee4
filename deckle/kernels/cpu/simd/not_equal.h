// x != y as IEEE has it: true wherever either is NaN. Highway's Ne is false there on AVX and AVX-512 (an ordered comparison) and
// true on SSE2; tools/check_tree forbids other calls of Ne.
#if defined(DECKLE_KERNELS_CPU_SIMD_NOT_EQUAL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_NOT_EQUAL_H
#undef DECKLE_KERNELS_CPU_SIMD_NOT_EQUAL_H
#else
#define DECKLE_KERNELS_CPU_SIMD_NOT_EQUAL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

template <class V>
HWY_INLINE auto not_equal(V x, V y) {
  return ::hwy::HWY_NAMESPACE::Not(::hwy::HWY_NAMESPACE::Eq(x, y));
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
