#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace deckle::kernels::cpu {

/// The exponent of the power of two that brings the largest of elements to [2, 4), as far as T has it, or 0 where none is needed
/// or helps: they are all 0, or one is infinite or NaN.
template <typename T>
int scale_exponent(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 0;
  return std::min(1 - std::ilogb(largest), std::numeric_limits<T>::max_exponent - 1);
}

}  // namespace deckle::kernels::cpu
