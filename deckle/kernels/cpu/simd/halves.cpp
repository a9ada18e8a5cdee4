// Runs of float16 and bfloat16 widened to float32 and narrowed again. Memory-bound: 6 bytes per element.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/halves.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "deckle/base/half.h"

#ifndef DECKLE_KERNELS_CPU_SIMD_HALVES_ONCE
#define DECKLE_KERNELS_CPU_SIMD_HALVES_ONCE
namespace deckle::kernels::cpu::simd {
namespace {

struct HalfTable {
  void (*widen_bfloat16)(const uint16_t* from, float* to, int64_t count);
  void (*widen_float16)(const uint16_t* from, float* to, int64_t count);
  void (*narrow_bfloat16)(const float* from, uint16_t* to, int64_t count);
  void (*narrow_float16)(const float* from, uint16_t* to, int64_t count);
  void (*to_doubles)(const float* from, double* to, int64_t count);
  void (*sticky_floats)(const double* from, float* to, int64_t count);
  bool (*split_float16)(const uint16_t* from, uint16_t* high, uint16_t* low, int64_t count);
};

}  // namespace
}  // namespace deckle::kernels::cpu::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Without F16C Highway emulates with non-IEEE rounding: scalar code instead. Stronger targets have lower bits.
constexpr bool kHasFloat16 = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2;

void widen_bfloat16(const uint16_t* from, float* to, int64_t count) {
  const hn::ScalableTag<uint32_t> words;
  const hn::Rebind<uint16_t, decltype(words)> halves;
  const auto lanes = static_cast<int64_t>(hn::Lanes(words));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, from + i)));
    hn::StoreU(bits, words, reinterpret_cast<uint32_t*>(to + i));
  }
  for (; i < count; ++i) to[i] = detail::bfloat16_bits_to_float(from[i]);
}

#if HWY_TARGET != HWY_SCALAR
/// Rounded to bfloat16, which is the upper half of each element.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> rounded_bits(D floats, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::BitCast(words, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(words, 0x400000u));
  return hn::BitCast(words, hn::IfThenElse(hn::IsNaN(value), hn::BitCast(floats, quiet), hn::BitCast(floats, rounded)));
}
#endif

void narrow_bfloat16(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> floats;
  const hn::ScalableTag<uint16_t> halves;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto low = hn::BitCast(halves, rounded_bits(floats, hn::LoadU(floats, from + i)));
    const auto high = hn::BitCast(halves, rounded_bits(floats, hn::LoadU(floats, from + i + lanes)));
    hn::StoreU(hn::ConcatOdd(halves, high, low), halves, to + i);
  }
  const hn::RebindToSigned<decltype(floats)> integers;
  const hn::Rebind<int16_t, decltype(floats)> part;
  for (; i + lanes <= count; i += lanes) {
    // An arithmetic shift keeps the value within int16, so the saturating narrowing changes nothing.
    const auto bits = hn::BitCast(integers, rounded_bits(floats, hn::LoadU(floats, from + i)));
    hn::StoreU(hn::DemoteTo(part, hn::ShiftRight<16>(bits)), part, reinterpret_cast<int16_t*>(to + i));
  }
#endif
  for (; i < count; ++i) to[i] = detail::float_to_bfloat16_bits(from[i]);
}

void widen_float16(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
  if constexpr (kHasFloat16) {
    const hn::ScalableTag<float> floats;
    const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
    const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::PromoteTo(floats, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from + i))), floats, to + i);
    }
  }
  for (; i < count; ++i) to[i] = detail::float16_bits_to_float(from[i]);
}

void narrow_float16(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
  if constexpr (kHasFloat16) {
    const hn::ScalableTag<float> floats;
    const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
    const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::DemoteTo(halves, hn::LoadU(floats, from + i)), halves, reinterpret_cast<hwy::float16_t*>(to + i));
    }
  }
  for (; i < count; ++i) to[i] = detail::float_to_float16_bits(from[i]);
}

void to_doubles(const float* from, double* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

/// Floats that round to the same halves as the doubles do: of their 52 bits the first 11, and one that says whether another is
/// set. So they are exact floats, but for those that are beyond the halves or below half of the least.
void sticky_floats(const double* from, float* to, int64_t count) {
  constexpr uint64_t kRest = (uint64_t{1} << 40) - 1;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits;
    std::memcpy(&bits, from + i, sizeof(bits));
    bits = (bits | ((bits & kRest) + kRest)) & ~kRest;
    double rounded;
    std::memcpy(&rounded, &bits, sizeof(bits));
    to[i] = static_cast<float>(rounded);
  }
}

bool split_float16(const uint16_t* from, uint16_t* high, uint16_t* low, int64_t count) {
  constexpr uint16_t kExponent = 0x7c00;  // all ones: infinite, or no number
  int64_t i = 0;
  bool finite = true;
#if HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<float> floats;
  const hn::RebindToUnsigned<decltype(floats)> words;
  const hn::ScalableTag<uint16_t> halves;
  const hn::Rebind<hwy::float16_t, decltype(floats)> part;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  const auto upper = hn::Set(words, 0xffff0000u);
  const auto exponent = hn::Set(halves, kExponent);
  auto largest = hn::Zero(halves);
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    largest = hn::Max(largest, hn::And(hn::LoadU(halves, from + i), exponent));
    const auto* const at = reinterpret_cast<const hwy::float16_t*>(from + i);
    const auto first = hn::PromoteTo(floats, hn::LoadU(part, at)), second = hn::PromoteTo(floats, hn::LoadU(part, at + lanes));
    const auto first_high = hn::And(hn::BitCast(words, first), upper), second_high = hn::And(hn::BitCast(words, second), upper);
    const auto first_low = hn::Sub(first, hn::BitCast(floats, first_high));
    const auto second_low = hn::Sub(second, hn::BitCast(floats, second_high));
    hn::StoreU(hn::ConcatOdd(halves, hn::BitCast(halves, second_high), hn::BitCast(halves, first_high)), halves, high + i);
    hn::StoreU(hn::ConcatOdd(halves, hn::BitCast(halves, second_low), hn::BitCast(halves, first_low)), halves, low + i);
  }
  finite = hn::AllTrue(halves, hn::Lt(largest, exponent));
#endif
  for (; i < count; ++i) {
    const float value = detail::float16_bits_to_float(from[i]);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    high[i] = static_cast<uint16_t>(bits >> 16);
    low[i] = detail::float_to_bfloat16_bits(value - detail::bfloat16_bits_to_float(high[i]));
    finite = finite && (from[i] & kExponent) != kExponent;
  }
  return finite;
}

constexpr HalfTable kTable = {&widen_bfloat16, &widen_float16, &narrow_bfloat16, &narrow_float16,
                              &to_doubles,     &sticky_floats, &split_float16};

}  // namespace

const HalfTable& half_table() { return kTable; }

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "deckle/kernels/cpu/simd/halves.h"

namespace deckle::kernels::cpu::simd {
namespace {

HWY_EXPORT(half_table);

constexpr int64_t kRun = 512;  // floats between halves and doubles: 2 KiB, in L1

template <typename Half>
void widen_twice(const Half* from, double* to, int64_t count) {
  float floats[kRun];
  for (int64_t i = 0; i < count; i += kRun) {
    const int64_t n = std::min(kRun, count - i);
    widen(from + i, floats, n);
    DECKLE_SIMD(half_table)().to_doubles(floats, to + i, n);
  }
}

template <typename Half>
void narrow_twice(const double* from, Half* to, int64_t count) {
  float floats[kRun];
  for (int64_t i = 0; i < count; i += kRun) {
    const int64_t n = std::min(kRun, count - i);
    DECKLE_SIMD(half_table)().sticky_floats(from + i, floats, n);
    narrow(floats, to + i, n);
  }
}

}  // namespace

void widen(const bfloat16* from, float* to, int64_t count) {
  DECKLE_SIMD(half_table)().widen_bfloat16(reinterpret_cast<const uint16_t*>(from), to, count);
}

void widen(const float16* from, float* to, int64_t count) {
  DECKLE_SIMD(half_table)().widen_float16(reinterpret_cast<const uint16_t*>(from), to, count);
}

void narrow(const float* from, bfloat16* to, int64_t count) {
  DECKLE_SIMD(half_table)().narrow_bfloat16(from, reinterpret_cast<uint16_t*>(to), count);
}

void narrow(const float* from, float16* to, int64_t count) {
  DECKLE_SIMD(half_table)().narrow_float16(from, reinterpret_cast<uint16_t*>(to), count);
}

bool split(const float16* from, bfloat16* high, bfloat16* low, int64_t count) {
  return DECKLE_SIMD(half_table)().split_float16(reinterpret_cast<const uint16_t*>(from), reinterpret_cast<uint16_t*>(high),
                                                 reinterpret_cast<uint16_t*>(low), count);
}

void widen(const bfloat16* from, double* to, int64_t count) { widen_twice(from, to, count); }
void widen(const float16* from, double* to, int64_t count) { widen_twice(from, to, count); }
void narrow(const double* from, bfloat16* to, int64_t count) { narrow_twice(from, to, count); }
void narrow(const double* from, float16* to, int64_t count) { narrow_twice(from, to, count); }

}  // namespace deckle::kernels::cpu::simd
#endif
