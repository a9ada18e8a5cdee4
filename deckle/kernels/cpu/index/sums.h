#pragma once

#include <cstdint>
#include <type_traits>

namespace deckle::kernels::cpu::indexing {

/// The accumulator type for elements of T.
template <typename T>
using SumOf = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

/// A sum as an element.
template <typename T>
T round_sum(SumOf<T> sum) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
    return static_cast<T>(sum);
  else
    return T(static_cast<float>(sum));
}

}  // namespace deckle::kernels::cpu::indexing
