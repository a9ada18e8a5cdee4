#pragma once

#include <exception>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "deckle/nested/nested_tensor.h"

namespace deckle::nested {

using NamedOperands = std::initializer_list<std::pair<std::string_view, const NestedTensor*>>;

/// Rethrows `error` with the op's name and the shapes of its nested operands added; std::bad_alloc, from a list of rows or
/// groups on the host, becomes Error(out_of_memory). To be called from the handler of `error`.
[[noreturn]] void rethrow(const std::exception& error, std::string_view op, NamedOperands operands);

/// body(), its errors passed through rethrow(): for functions on nested tensors that no entry declares.
template <typename Body>
decltype(auto) call_as(std::string_view op, NamedOperands operands, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    rethrow(error, op, operands);
  }
}

template <typename Body>
decltype(auto) call_as(std::string_view op, Body&& body) {
  return call_as(op, {}, body);
}

}  // namespace deckle::nested
