#pragma once

#include <concepts>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "deckle/core/tensor.h"

/// How several tensors are written: `std::cout << x.max(0) << x.split(1)`.
namespace deckle {

/// Results with names, such as ValuesIndices.
template <typename T>
concept NamedResults = requires {
  typename T::Tuple;
}
&&std::derived_from<T, typename T::Tuple>;

template <NamedResults T>
std::ostream& operator<<(std::ostream& stream, const T& results) {
  const auto write = [&](const auto& first, const auto&... rest) {
    stream << '(' << first;
    ((stream << ",\n" << rest), ...);
  };
  std::apply(write, static_cast<const typename T::Tuple&>(results));
  return stream << ')';
}

template <typename T>
requires(std::derived_from<T, Tensor> || requires(const T& x) { x.ragged(); }) std::ostream& operator<<(
    std::ostream& stream, const std::vector<T>& tensors) {
  stream << '[';
  for (size_t i = 0; i < tensors.size(); ++i) stream << (i == 0 ? "" : ",\n") << tensors[i];
  return stream << ']';
}

}  // namespace deckle
