#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "deckle/kernels/cpu/simd/convert_element.h"
#include "deckle/kernels/cpu/simd/halves.h"

namespace deckle::kernels::cpu::indexing {

inline constexpr int64_t kHalves = 512;  // that are widened to float32 at a time

/// The accumulator type for elements of T.
template <typename T>
using SumOf = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

/// A sum as an element.
template <typename T>
T round_sum(SumOf<T> sum) {
  return simd::convert<T>(sum);
}

/// Runs of elements as sums, and of sums as elements.
template <typename T>
void widen_run(const T* from, int64_t count, SumOf<T>* sums) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    float buffer[kHalves];
    for (int64_t first = 0; first < count; first += kHalves) {
      const int64_t n = std::min(kHalves, count - first);
      simd::widen(from + first, buffer, n);
      for (int64_t i = 0; i < n; ++i) sums[first + i] = static_cast<double>(buffer[i]);
    }
  } else {
    for (int64_t i = 0; i < count; ++i) sums[i] = static_cast<SumOf<T>>(from[i]);
  }
}
template <typename T>
void round_run(const SumOf<T>* sums, int64_t count, T* to) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    simd::narrow(sums, to, count);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = round_sum<T>(sums[i]);
  }
}

}  // namespace deckle::kernels::cpu::indexing
