// Helpers of smooth/functions.yaml: host functions on sizes.
#pragma once

#include "deckle/core/dims.h"

namespace smooth::shapes {

inline deckle::Dims halved(deckle::IntSpan sizes) {
  deckle::Dims result(sizes.begin(), sizes.end());
  if (!result.empty()) result.back() /= 2;
  return result;
}

inline deckle::Dims doubled(deckle::IntSpan sizes) {
  deckle::Dims result(sizes.begin(), sizes.end());
  if (!result.empty()) result.back() *= 2;
  return result;
}

inline bool is_even(deckle::IntSpan sizes) { return !sizes.empty() && sizes[sizes.size() - 1] % 2 == 0; }

}  // namespace smooth::shapes
