// Runs of elements in reverse order, vector by vector; bytes, which not all instruction sets turn round, one by one.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/reverse.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>
#include <tuple>

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
void reverse(const T* HWY_RESTRICT from, int64_t count, T* HWY_RESTRICT to) {
  int64_t i = 0;
  if constexpr (sizeof(T) > 1) {
    const hn::ScalableTag<T> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Reverse(d, hn::LoadU(d, from + count - i - lanes)), d, to + i);
  }
  for (; i < count; ++i) to[i] = from[count - 1 - i];
}

}  // namespace

const auto& reverse_table() {
  static constexpr std::tuple table(&reverse<uint8_t>, &reverse<uint16_t>, &reverse<uint32_t>, &reverse<uint64_t>);
  return table;
}

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "deckle/kernels/cpu/simd/reverse.h"

namespace deckle::kernels::cpu::simd {

HWY_EXPORT(reverse_table);

template <typename T>
void reverse(const T* from, int64_t count, T* to) {
  std::get<void (*)(const T*, int64_t, T*)>(DECKLE_SIMD(reverse_table)())(from, count, to);
}
template void reverse(const uint8_t*, int64_t, uint8_t*);
template void reverse(const uint16_t*, int64_t, uint16_t*);
template void reverse(const uint32_t*, int64_t, uint32_t*);
template void reverse(const uint64_t*, int64_t, uint64_t*);

}  // namespace deckle::kernels::cpu::simd
#endif
