// Whether indices are in range: a plain loop without branches, compiled once per instruction set, which the compiler vectorises.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/within.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>
#include <tuple>
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

const auto& within_table() {
  static constexpr std::tuple table(&within<int64_t>, &within<int32_t>);
  return table;
}

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu::simd {

HWY_EXPORT(within_table);

template <typename T>
bool all_within(const T* x, int64_t count, int64_t size) {
  return std::get<bool (*)(const T*, int64_t, int64_t)>(DECKLE_SIMD(within_table)())(x, count, size);
}
template bool all_within(const int64_t*, int64_t, int64_t);
template bool all_within(const int32_t*, int64_t, int64_t);

}  // namespace deckle::kernels::cpu::simd
#endif
