// Runs of elements in reverse order, vector by vector; bytes, which not all instruction sets turn round, one by one.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/reverse.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
void reverse(const T* HWY_RESTRICT from, int64_t count, T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, from + count - i - lanes)), d, to + i);
  for (; i < count; ++i) to[i] = from[count - 1 - i];
}

}  // namespace

void reverse_16(const uint16_t* from, int64_t count, uint16_t* to) { reverse(from, count, to); }
void reverse_32(const uint32_t* from, int64_t count, uint32_t* to) { reverse(from, count, to); }
void reverse_64(const uint64_t* from, int64_t count, uint64_t* to) { reverse(from, count, to); }

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "deckle/kernels/cpu/simd/reverse.h"

namespace deckle::kernels::cpu::simd {

HWY_EXPORT(reverse_16);
HWY_EXPORT(reverse_32);
HWY_EXPORT(reverse_64);

template <>
void reverse(const uint8_t* from, int64_t count, uint8_t* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[count - 1 - i];
}
template <>
void reverse(const uint16_t* from, int64_t count, uint16_t* to) {
  DECKLE_SIMD(reverse_16)(from, count, to);
}
template <>
void reverse(const uint32_t* from, int64_t count, uint32_t* to) {
  DECKLE_SIMD(reverse_32)(from, count, to);
}
template <>
void reverse(const uint64_t* from, int64_t count, uint64_t* to) {
  DECKLE_SIMD(reverse_64)(from, count, to);
}

}  // namespace deckle::kernels::cpu::simd
#endif
