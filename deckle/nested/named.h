#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "deckle/base/error.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle::nested {

using NamedOperands = std::initializer_list<std::pair<std::string_view, const NestedTensor*>>;

/// Throws `error` again with the name of the op that was called in front, and behind it the shapes of those nested operands that
/// it does not give: what is found wrong on the values speaks of packed rows.
[[noreturn]] void rethrow(const Error& error, std::string_view op, NamedOperands operands);

/// body(), whose errors are told as rethrow() does: for functions on nested tensors that no entry declares.
template <typename Body>
decltype(auto) named(std::string_view op, NamedOperands operands, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    rethrow(error, op, operands);
  }
}

template <typename Body>
decltype(auto) named(std::string_view op, Body&& body) {
  return named(op, {}, body);
}

}  // namespace deckle::nested
