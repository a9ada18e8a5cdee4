#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "deckle/base/half.h"

/// How one element becomes one of another type, wherever it is converted: rounded to nearest, once; to an integer truncated and
/// saturated, NaN to 0. Integers keep their low bits.
namespace deckle::kernels::cpu::simd {

template <typename I, typename F>
inline I saturate(F value) {
  constexpr F kLow = static_cast<F>(std::numeric_limits<I>::min());
  constexpr F kEnd = static_cast<F>(std::numeric_limits<I>::max() / 2 + 1) * 2;  // exact: a power of two
  if (!(value > kLow)) return value == value ? std::numeric_limits<I>::min() : I{0};
  return value < kEnd ? static_cast<I>(value) : std::numeric_limits<I>::max();
}

/// Rounds to odd: a second rounding, to a half, then gives the correctly rounded result.
inline float round_to_odd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  if (back == value || std::isnan(value) || std::isinf(nearest)) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if ((bits & 1u) == 0) bits = std::abs(back) > std::abs(value) ? bits - 1 : bits + 1;
  return std::bit_cast<float>(bits);
}

/// The same of an integer, to 13 digits, so that the float is exact; without a branch, and so in vectors where loops are.
inline float round_to_odd(int64_t value) {
  constexpr uint64_t kExact = uint64_t{1} << 53;  // up to here doubles hold all integers
  const auto size = static_cast<uint64_t>(value);
  const int64_t beyond = static_cast<int64_t>((kExact + size) | (kExact - size)) >> 63;  // all ones, or none
  const int64_t last = beyond & 1023, rest = value & last, odd = (value - rest) | ((rest + last) & 1024);
  constexpr uint64_t kRest = (uint64_t{1} << 40) - 1;  // digits of a double
  const auto bits = std::bit_cast<uint64_t>(static_cast<double>(odd));
  return static_cast<float>(std::bit_cast<double>((bits | ((bits & kRest) + kRest)) & ~kRest));
}

template <typename To, typename From>
inline To convert(From value) {
  constexpr bool kHalf = std::is_same_v<To, bfloat16> || std::is_same_v<To, float16>;
  if constexpr (std::is_same_v<From, bfloat16> || std::is_same_v<From, float16>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (kHalf && std::is_same_v<From, float>) {
    return To(value);
  } else if constexpr (kHalf && std::is_integral_v<From>) {
    return To(round_to_odd(static_cast<int64_t>(value)));
  } else if constexpr (kHalf) {
    return To(round_to_odd(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace deckle::kernels::cpu::simd
