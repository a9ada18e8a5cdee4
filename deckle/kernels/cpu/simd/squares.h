// Squares of elements, 16 bytes a side, transposed in registers.
#if defined(DECKLE_KERNELS_CPU_SIMD_SQUARES_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_SQUARES_H
#undef DECKLE_KERNELS_CPU_SIMD_SQUARES_H
#else
#define DECKLE_KERNELS_CPU_SIMD_SQUARES_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace hn = ::hwy::HWY_NAMESPACE;

/// Elements of a side; one without vectors.
template <typename T>
inline constexpr int kSquareSide = HWY_TARGET == HWY_SCALAR ? 1 : 16 / static_cast<int>(sizeof(T));

#if HWY_TARGET != HWY_SCALAR
/// Block by block of 16 bytes: lane j of v[i] becomes lane i of v[j]. Each pass interleaves vector i with the one half a square
/// further.
template <class D, int kN>
HWY_INLINE void transpose_squares(D d, hn::Vec<D> (&v)[kN]) {
  static_assert(kN == kSquareSide<hn::TFromD<D>>);
  hn::Vec<D> out[kN];
  HWY_UNROLL(4)
  for (int pass = 1; pass < kN; pass *= 2) {
    HWY_UNROLL(8)
    for (int i = 0; i < kN / 2; ++i) {
      out[2 * i] = hn::InterleaveLower(d, v[i], v[i + kN / 2]);
      out[2 * i + 1] = hn::InterleaveUpper(d, v[i], v[i + kN / 2]);
    }
    HWY_UNROLL(16)
    for (int i = 0; i < kN; ++i) v[i] = out[i];
  }
}
#endif

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
