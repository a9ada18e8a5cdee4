#pragma once

#include <cstdint>

namespace deckle {

/// A Scalar argument as a kernel sees it, in both readings.
struct Number {
  double real = 0;
  int64_t integer = 0;
};

}  // namespace deckle
