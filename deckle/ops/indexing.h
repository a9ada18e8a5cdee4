#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>

#include "deckle/core/tensor.h"

/// NumPy's indexing with brackets, as lists: x[1:-1, ..., None, mask] is x.index({slice(1, -1), ellipsis, newaxis, mask}).
namespace deckle {

/// start:end:step of one dim; what is left out reaches to the end of the dim.
struct Slice {
  std::optional<int64_t> start;
  std::optional<int64_t> end;
  int64_t step = 1;
};
inline Slice slice(OptionalIntArg start = {}, OptionalIntArg end = {}, IntArg step = 1) { return {start, end, step}; }

struct Ellipsis {};
struct NewAxis {};
inline constexpr Ellipsis ellipsis;  ///< as many whole dims as are left
inline constexpr NewAxis newaxis;    ///< a new dim of size 1

/// What may stand for one dim (a bool tensor: for as many as it has). Numbers and slices give views; tensors, of bool or of
/// int64 or int32, copy. Several tensors broadcast together and their dims stand where the first one stood if they are
/// neighbours, else in front. Numbers are taken before tensors, as in PyTorch.
class Index {
 public:
  template <Integer T>
  Index(T position) : value_(detail::integer_of(position)) {}
  Index(IntArg position) : value_(static_cast<int64_t>(position)) {}
  Index(Slice slice) : value_(slice) {}
  Index(Ellipsis value) : value_(value) {}
  Index(NewAxis value) : value_(value) {}
  template <NoInteger T>
  Index(T /* an integer is expected, neither a bool nor a fraction */) = delete;
  Index(std::initializer_list<int64_t> /* indices are a tensor: tensor({0, 1}) */) = delete;
  Index(Tensor positions) : value_(std::move(positions)) {}

  using Value = std::variant<int64_t, Slice, Ellipsis, NewAxis, Tensor>;
  const Value& value() const { return value_; }

 private:
  Value value_;
};

}  // namespace deckle
