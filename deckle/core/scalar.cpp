#include "deckle/core/scalar.h"

#include <fmt/format.h>

#include "deckle/base/check.h"

namespace deckle {

int64_t to_integer(double value) {
  constexpr double kLimit = 0x1p63;
  if (!(value >= -kLimit && value < kLimit)) fail("{} is no 64-bit integer (expected -2^63 to 2^63 - 1)", value);
  return static_cast<int64_t>(value);
}

void detail::refuse_large_integer() {
  throw Error("an integer is too large (expected at most 2^63 - 1; a float64 may be larger)");
}

std::string to_string(const Scalar& scalar) {
  if (scalar.dtype() == DType::bool_) return scalar.to_int64() ? "true" : "false";
  return scalar.is_floating() ? fmt::format("{}", scalar.to_double()) : fmt::format("{}", scalar.to_int64());
}

}  // namespace deckle
