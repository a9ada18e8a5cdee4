// Triangles, diagonals, moved dims, repeated and padded nested tensors.

#include <algorithm>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/generated/arrange.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/kept_rows.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/padding.h"
#include "deckle/ops/shapes.h"

namespace deckle::nested {
namespace {

/// The triangle of matrices of which at least the rows are a ragged dim: row and column of every element, then its side.
NestedTensor triangle(const NestedTensor& self, int64_t diagonal, bool lower) {
  const int ragged_dims = self.ragged_dims();
  const int64_t regular = self.values().dim() - 1;
  check(ragged_dims + regular >= 2, "components of shape {} have one dim (expected matrices)", nested::ShapeOf{self});
  const bool ragged_columns = regular == 0;
  const int row_dim = ragged_dims - (ragged_columns ? 2 : 1);
  const int64_t width = ragged_columns ? 1 : self.values().size(1), rows = self.values().size(0);
  const Tensor outside = kept_value(*self.ragged(), lower ? "tril" : "triu", {diagonal, ragged_columns ? 0 : width}, [&] {
    const Tensor made = empty(ragged_columns ? Dims{rows} : Dims{rows, width}, DType::bool_);
    bool* next = made.data<bool>();
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t i = self.ragged()->row_map().position(row, row_dim),
                    first = ragged_columns ? self.ragged()->row_map().position(row, ragged_dims - 1) : 0;
      for (int64_t j = first; j < first + width; ++j) *next++ = lower ? j - i > diagonal : j - i < diagonal;
    }
    return native::upload(made);
  });
  return NestedTensor::of_op(masked_fill(self.values(), outside, false), self.ragged());
}

/// The numbers and the regular sizes.
Dims key_of(std::initializer_list<int64_t> numbers, const Tensor& values) {
  Dims key(numbers.begin(), numbers.end());
  for (const int64_t size : values.sizes().subspan(1)) key.push_back(size);
  return key;
}

/// An affine index of the diagonal's elements of each component: all dims of the result are ragged.
nested::Rows diagonal_elements(const NestedTensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t rank = self.dim() - 1, inner = numel_of(self.values().sizes().subspan(1));
  std::vector<int64_t> sizes, strides, first;
  for (int64_t b = 0; b < self.components(); ++b) {
    std::vector<int64_t> own, step(static_cast<size_t>(rank), 1);
    for (int dim = 0; dim < self.ragged_dims(); ++dim) own.push_back(self.ragged()->size(b, dim));
    for (int64_t dim = 1; dim < self.values().dim(); ++dim) own.push_back(self.values().size(dim));
    for (int64_t dim = rank - 2; dim >= 0; --dim)
      step[static_cast<size_t>(dim)] = step[static_cast<size_t>(dim) + 1] * own[static_cast<size_t>(dim) + 1];
    const auto row = static_cast<size_t>(dim1 - 1), column = static_cast<size_t>(dim2 - 1);
    const int64_t down = -std::clamp<int64_t>(offset, -own[row], 0), right = std::clamp<int64_t>(offset, 0, own[column]);
    for (size_t dim = 0; dim < own.size(); ++dim) {
      if (dim == row || dim == column) continue;
      sizes.push_back(own[dim]);
      strides.push_back(step[dim]);
    }
    sizes.push_back(std::min(own[row] - down, own[column] - right));
    strides.push_back(step[row] + step[column]);
    first.push_back(self.ragged()->offset(b) * inner + down * step[row] + right * step[column]);
  }
  const Ragged ragged(std::make_shared<const RaggedShape>(std::move(sizes), static_cast<int>(rank) - 1));
  const Tensor index = nested::affine_index(*ragged, first, strides);
  return {index, ragged};
}

}  // namespace

NestedTensor tril(const NestedTensor& self, int64_t diagonal) {
  if (self.values().dim() > 2 || self.ragged_dims() == 0)
    return NestedTensor::of_op(tril(self.values(), diagonal), self.ragged());
  return triangle(self, diagonal, true);
}

NestedTensor triu(const NestedTensor& self, int64_t diagonal) {
  if (self.values().dim() > 2 || self.ragged_dims() == 0)
    return NestedTensor::of_op(triu(self.values(), diagonal), self.ragged());
  return triangle(self, diagonal, false);
}

NestedTensor diagonal(const NestedTensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  dim1 = nested::wrap_dim(dim1, self);
  dim2 = nested::wrap_dim(dim2, self);
  check(dim1 != dim2, "dim1 and dim2 are both {} (expected different dims)", dim1);
  if (!self.is_ragged(dim1) && !self.is_ragged(dim2))
    return NestedTensor::of_op(diagonal(self.values(), offset, nested::values_dim(dim1, self), nested::values_dim(dim2, self)),
                               self);
  const nested::Rows rows = nested::kept_rows(*self.ragged(), "diagonal", key_of({offset, dim1, dim2}, self.values()),
                                              [&] { return diagonal_elements(self, offset, dim1, dim2); });
  return {index_select(reshape(self.values(), {self.values().numel()}), 0, rows.index), rows.shape};
}

NestedTensor movedim(const NestedTensor& self, IntSpan source, IntSpan destination) {
  return deckle::permute(self, shapes::moved_dims(source, destination, self.dim()));
}

NestedTensor repeat(const NestedTensor& self, IntSpan repeats) {
  check(static_cast<int64_t>(repeats.size()) == self.dim(), "{} repeats for shape {} (expected {})", repeats.size(),
        nested::ShapeOf{self}, self.dim());
  check(std::all_of(repeats.begin(), repeats.end(), [](int64_t times) { return times >= 0; }),
        "a number in repeats {} is negative (expected 0 or more)", repeats);
  const int ragged_dims = self.ragged_dims();
  Dims on_values = {ragged_dims == 0 ? repeats[0] : 1};
  for (const int64_t times : repeats.subspan(static_cast<size_t>(ragged_dims) + 1)) on_values.push_back(times);
  NestedTensor result = NestedTensor::of_op(repeat(self.values(), on_values), self);
  if (ragged_dims == 0) return result;
  for (int dim = 0; dim < ragged_dims; ++dim) {
    const int64_t times = repeats[static_cast<size_t>(dim) + 1];
    if (times == 1) continue;
    const auto again = [&](int64_t b, std::vector<int64_t>& positions) {
      const int64_t count = numel_of({times, self.ragged()->size(b, dim)});
      positions.reserve(positions.size() + static_cast<size_t>(count));
      for (int64_t i = 0; i < count; ++i) positions.push_back(i % self.ragged()->size(b, dim));
    };
    result = nested::take(result, nested::kept_rows(*result.ragged(), "repeat", {dim, times},
                                                    [&] { return nested::rows_at(result.ragged(), dim, again); }));
  }
  if (repeats[0] == 1) return result;
  return nested::take(result, nested::kept_rows(*result.ragged(), "repeated batch", {repeats[0]}, [&] {
                        std::vector<int64_t> components;
                        const int64_t count = numel_of({repeats[0], self.components()});
                        components.reserve(static_cast<size_t>(count));
                        for (int64_t i = 0; i < count; ++i) components.push_back(i % self.components());
                        return nested::rows_of_components(result.ragged(), components);
                      }));
}

NestedTensor repeat_interleave(const NestedTensor& self, int64_t repeats, int64_t dim) {
  const int64_t at = nested::wrap_dim(dim, self);
  if (at > 0 && !self.is_ragged(at))
    return NestedTensor::of_op(repeat_interleave(self.values(), repeats, nested::values_dim(at, self)), self);
  if (at == 0 && self.ragged_dims() == 0) return {repeat_interleave(self.values(), repeats, 0), Ragged()};
  if (at == 0) {
    return nested::take(self, nested::kept_rows(*self.ragged(), "interleaved batch", {repeats}, [&] {
                          std::vector<int64_t> components;
                          for (int64_t b = 0; b < self.components(); ++b)
                            components.insert(components.end(), static_cast<size_t>(repeats), b);
                          return nested::rows_of_components(self.ragged(), components);
                        }));
  }
  const int along = static_cast<int>(at) - 1;
  const auto each = [&](int64_t b, std::vector<int64_t>& positions) {
    for (int64_t i = 0; i < self.ragged()->size(b, along); ++i)
      positions.insert(positions.end(), static_cast<size_t>(repeats), i);
  };
  return nested::take(self, nested::kept_rows(*self.ragged(), "interleave", {along, repeats},
                                              [&] { return nested::rows_at(self.ragged(), along, each); }));
}

NestedTensor pad(const NestedTensor& self, IntSpan padding, PadMode mode, const Scalar& value) {
  require_padding(padding, self.dim());
  const int64_t regular = self.values().dim() - 1, last = self.dim() - 1;
  const auto on_values = std::min(padding.size(), 2 * static_cast<size_t>(regular));
  NestedTensor result = NestedTensor::of_op(pad(self.values(), padding.first(on_values), mode, value), self);
  for (size_t i = on_values; i < padding.size(); i += 2) {
    const int64_t dim = last - static_cast<int64_t>(i / 2), before = padding[i], after = padding[i + 1];
    check(
        dim > 0 || (before == 0 && after == 0),
        "dim 0 is the batch of shape {}, and a component beside the others would have no length (expected padding of dims 1..{})",
        nested::ShapeOf{self}, last);
    if (before == 0 && after == 0) continue;
    const int along = static_cast<int>(dim) - 1;
    const nested::Rows rows = nested::kept_rows(*result.ragged(), "pad", {along, before, after, static_cast<int64_t>(mode)}, [&] {
      return nested::rows_at(result.ragged(), along, [&](int64_t b, std::vector<int64_t>& positions) {
        positions = padded_places(self.ragged()->size(b, along), before, after, mode);
      });
    });
    result = {index_select_or(result.values(), rows.index, value), rows.shape};
  }
  return result;
}

}  // namespace deckle::nested
