#pragma once

#include <cstdint>

namespace deckle {

/// A Scalar argument as kernels receive it, as a double and as an integer.
struct Number {
  double real = 0;
  int64_t integer = 0;
};

}  // namespace deckle
