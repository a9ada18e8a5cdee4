#include "deckle/core/scalar.h"

#include <fmt/format.h>

namespace deckle {

std::string to_string(const Scalar& scalar) {
  if (scalar.dtype() == DType::bool_) return scalar.to_int64() ? "true" : "false";
  return scalar.is_floating() ? fmt::format("{}", scalar.to_double()) : fmt::format("{}", scalar.to_int64());
}

}  // namespace deckle
