// Whether indices are in range: a plain loop without branches, compiled once per instruction set, which the compiler vectorises.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/within.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "deckle/kernels/cpu/simd/within.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

template <typename T>
bool within(const T* x, int64_t count, int64_t size) {
  using Bits = std::make_unsigned_t<T>;
  const auto last = static_cast<Bits>(std::min<int64_t>(size - 1, std::numeric_limits<T>::max()));
  Bits outside = 0;  // the sign bit says that one was negative, or larger than the last
  for (int64_t i = 0; i < count; ++i) outside |= static_cast<Bits>(x[i]) | (last - static_cast<Bits>(x[i]));
  return static_cast<T>(outside) >= 0;
}

}  // namespace

bool within_64(const int64_t* x, int64_t count, int64_t size) { return within(x, count, size); }
bool within_32(const int32_t* x, int64_t count, int64_t size) { return within(x, count, size); }

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu::simd {

HWY_EXPORT(within_64);
HWY_EXPORT(within_32);

bool all_within(const int64_t* x, int64_t count, int64_t size) { return DECKLE_SIMD(within_64)(x, count, size); }
bool all_within(const int32_t* x, int64_t count, int64_t size) { return DECKLE_SIMD(within_32)(x, count, size); }

}  // namespace deckle::kernels::cpu::simd
#endif
