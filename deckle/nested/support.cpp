#include "deckle/nested/support.h"

#include "deckle/base/check.h"
#include "deckle/base/numbers.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {

namespace nested {

int64_t wrap_dim(int64_t dim, const NestedTensor& x) {
  const int64_t rank = x.dim();
  check(dim >= -rank && dim < rank, "dim {} is out of range for shape {} (expected {}..{})", dim, ShapeOf{x}, -rank, rank - 1);
  return dim < 0 ? dim + rank : dim;
}

int64_t values_dim(int64_t dim, const NestedTensor& x) {
  dim = wrap_dim(dim, x);
  check(dim > x.ragged_dims() || x.ragged_dims() == 0, "dim {} is {} in shape {} (expected a regular dim, {}..{})", dim,
        dim == 0 ? "the batch" : "ragged", ShapeOf{x}, x.ragged_dims() + 1, x.dim() - 1);
  return dim - x.ragged_dims();
}

int64_t new_values_dim(int64_t dim, const NestedTensor& x) {
  const int64_t places = x.dim() + 1;
  check(dim >= -places && dim < places, "dim {} is out of range for a new dim of shape {} (expected {}..{})", dim, ShapeOf{x}, -places, places - 1);
  if (dim < 0) dim += places;
  check(dim > x.ragged_dims(), "a new dim {} would stand before the ragged dims of shape {} (expected {}..{})", dim, ShapeOf{x},
        x.ragged_dims() + 1, places - 1);
  return dim - x.ragged_dims();
}

Dims values_dims(Ints dims, const NestedTensor& x) {
  Dims result;
  for (const int64_t dim : dims) result.push_back(values_dim(dim, x));
  return result;
}

void require_floating(const NestedTensor& x, std::string_view argument) {
  check(is_floating(x.dtype()), "{} is {} (expected a floating dtype)", argument, name(x.dtype()));
}

void require_regular_dim(const NestedTensor& x) {
  check(x.values().dim() > 1, "the last dim of shape {} is {} (expected a regular dim after the ragged ones)", ShapeOf{x},
        x.ragged_dims() > 0 ? "ragged" : "the batch");
}

void require_same_ragged(const NestedTensor& self, const NestedTensor& other) {
  if (self.ragged() == other.ragged()) return;
  std::string where;
  if (self.ragged().defined() && other.ragged().defined() && self.components() == other.components() && self.ragged_dims() == other.ragged_dims()) {
    for (int64_t b = 0; b < self.components() && where.empty(); ++b) {
      for (int dim = 0; dim < self.ragged_dims(); ++dim) {
        if (self.ragged()->size(b, dim) != other.ragged()->size(b, dim)) where = fmt::format(" (component {})", b);
      }
    }
  }
  fail("ragged shapes differ: self has {}, other has {}{}", to_string(self.ragged()), to_string(other.ragged()), where);
}

Tensor broadcast_to_values(const Tensor& other, const NestedTensor& self) {
  if (other.dim() < self.dim() || !self.ragged().defined()) {
    check(!self.ragged().defined() || other.dim() <= self.values().dim() - 1,
          "a dense operand of shape {} does not broadcast with {} (expected its regular dims, or {} dims with size 1 where it is ragged)",
          to_string(other.sizes()), ShapeOf{self}, self.dim());
    return other;
  }
  const int ragged_dims = self.ragged_dims();
  bool fits = other.dim() == self.dim() && (other.size(0) == 1 || other.size(0) == self.components());
  for (int dim = 1; dim <= ragged_dims && fits; ++dim) fits = other.size(dim) == 1;
  check(fits, "a dense operand of shape {} does not broadcast with {} (expected {} or 1 in dim 0 and 1 in the ragged dims)",
        to_string(other.sizes()), ShapeOf{self}, self.components());
  Tensor rows = other;
  for (int dim = 0; dim < ragged_dims; ++dim) rows = squeeze(rows, 1);
  return rows.size(0) == 1 && self.components() != 1 ? rows : segment_broadcast(rows, self.ragged());
}

std::string shape_string(const NestedTensor& x) {
  if (!x.defined()) return "undefined";
  if (!x.ragged().defined()) return to_string(x.values().sizes());
  std::string text = fmt::format("[{}", x.components());
  for (int dim = 0; dim < x.ragged_dims(); ++dim) {
    const int64_t smallest = x.ragged()->min_size(dim), largest = x.ragged()->max_size(dim);
    text += smallest == largest ? fmt::format(", {}", largest) : fmt::format(", {}..{}", smallest, largest);
  }
  for (int64_t dim = 1; dim < x.values().dim(); ++dim) text += fmt::format(", {}", x.values().size(dim));
  return text + "]";
}

}  // namespace nested

std::string to_string(const NestedTensor& x) {
  if (!x.defined()) return "NestedTensor(undefined)";
  std::string text = fmt::format("NestedTensor[{}", x.components());
  for (int dim = 0; dim < x.ragged_dims(); ++dim) {
    int64_t total = 0;
    for (int64_t b = 0; b < x.components(); ++b) total += x.ragged()->size(b, dim);
    const int64_t mean = x.components() == 0 ? 0 : (total + x.components() / 2) / x.components();
    text += fmt::format(", {}..{} (mean {})", x.ragged()->min_size(dim), x.ragged()->max_size(dim), mean);
  }
  for (int64_t dim = 1; dim < x.values().dim(); ++dim) text += fmt::format(", {}", x.values().size(dim));
  return text + fmt::format("] {}, {} rows", name(x.dtype()), with_commas(x.values().size(0)));
}

}  // namespace deckle
