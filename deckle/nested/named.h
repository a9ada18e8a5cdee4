#pragma once

#include <string_view>

#include "deckle/base/error.h"

namespace deckle::nested {

/// body(), whose errors begin with the op's name: for functions on nested tensors that no entry declares.
template <typename Body>
decltype(auto) named(std::string_view op, Body&& body) {
  try {
    return body();
  } catch (Error& error) {
    error.add_prefix(op);
    throw;
  }
}

}  // namespace deckle::nested
