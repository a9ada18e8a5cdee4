#pragma once

#include <exception>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "deckle/nested/nested_tensor.h"

namespace deckle::nested {

using NamedOperands = std::initializer_list<std::pair<std::string_view, const NestedTensor*>>;

/// Throws `error`, which is being handled, again: an Error with the name of the op that was called in front, and behind it the
/// shapes of those nested operands that it does not give, for what is found wrong on the values speaks of packed rows. Host
/// memory that a list of rows or groups did not get becomes an Error too.
[[noreturn]] void rethrow(const std::exception& error, std::string_view op, NamedOperands operands);

/// body(), whose errors are told as rethrow() does: for functions on nested tensors that no entry declares.
template <typename Body>
decltype(auto) named(std::string_view op, NamedOperands operands, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    rethrow(error, op, operands);
  }
}

template <typename Body>
decltype(auto) named(std::string_view op, Body&& body) {
  return named(op, {}, body);
}

}  // namespace deckle::nested
