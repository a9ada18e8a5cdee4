// Elements and rows by ragged index, by mask, and bags of embeddings.

#include "deckle/nested/indexing.h"

#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/shown.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

/// The values of an index as int64; shared if they are int64 already.
Tensor indices_of(const NestedTensor& index, std::string_view argument = "index") {
  check(index.dtype() == DType::int64 || index.dtype() == DType::int32, Argument{argument}, "is {} (expected int64 or int32)",
        name(index.dtype()));
  return to(index.values(), DType::int64);
}

/// Positions in the components of x, as int64; bounds are not checked.
Tensor positions_in(const NestedTensor& x, const NestedTensor& index) {
  check(x.ragged_dims() == 1 && index.ragged_dims() == 1, "self has shape {}, index {} (expected one ragged dim each)",
        nested::ShapeOf{x}, nested::ShapeOf{index});
  check(index.components() == x.components(), "index has {} components, self has {} (expected as many)", index.components(),
        x.components());
  return indices_of(index);
}

/// Positions in the components of x, as rows of its values.
Tensor as_rows(const NestedTensor& index, const NestedTensor& x) {
  const Tensor rows = native::on_host(clone(positions_in(x, index)));
  const int64_t inner = numel_of(rows.sizes().subspan(1));
  auto* next = rows.data<int64_t>();
  for (int64_t b = 0; b < x.components(); ++b) {
    const int64_t length = x.ragged()->size(b), offset = x.ragged()->offsets()[static_cast<size_t>(b)];
    for (int64_t i = 0; i < index.ragged()->size(b) * inner; ++i, ++next) {
      check(*next >= 0 && *next < length, "index {} is out of range for component {}, of length {} (expected {})", *next, b,
            length, Range{0, length - 1});
      *next += offset;
    }
  }
  return native::move_to(rows, index.values().device());
}

Tensor row_vector(const NestedTensor& index, const NestedTensor& x) {
  const Tensor rows = as_rows(index, x);
  check(rows.dim() == 1, Argument{"index"}, "has shape {} (expected one index for each row, [B, K])", nested::ShapeOf{index});
  return rows;
}

/// Whether an index along `dim` names positions in components with one ragged dim.
bool in_components(int64_t dim, const NestedTensor& x) { return dim == 1 && x.ragged_dims() == 1; }

/// The row of x that each element of index names along `dim`, the batch or a ragged dim; in the others it stays where it is.
Tensor rows_along(const NestedTensor& index, int64_t dim, const NestedTensor& x) {
  check(x.ragged_dims() == index.ragged_dims(), "self has shape {}, index {} (expected equal numbers of ragged dims)",
        nested::ShapeOf{x}, nested::ShapeOf{index});
  check(dim == 0 || index.components() == x.components(), "index has {} components, self has {} (expected as many)",
        index.components(), x.components());
  if (in_components(dim, x)) return as_rows(index, x);
  const RaggedShape& shape = *x.ragged();
  const Tensor rows = native::on_host(clone(indices_of(index)));
  const int64_t inner = numel_of(rows.sizes().subspan(1));
  auto* next = rows.data<int64_t>();
  const RowMap& map = index.ragged()->row_map();
  std::vector<int64_t> place(static_cast<size_t>(shape.ragged_dims())), at;
  for (int64_t row = 0; row < index.ragged()->rows(); ++row) {
    const int64_t b = map.components()[static_cast<size_t>(row)];
    for (int other = 0; other < shape.ragged_dims(); ++other) place[static_cast<size_t>(other)] = map.position(row, other);
    for (int64_t i = 0; i < inner; ++i, ++next) {
      at = place;
      const int64_t component = dim == 0 ? *next : b,
                    size = dim == 0 ? shape.components() : shape.size(b, static_cast<int>(dim) - 1);
      check(*next >= 0 && *next < size, "index {} of component {} is out of range for dim {} of shape {} (expected {} there)",
            *next, b, dim, nested::ShapeOf{x}, Range{0, size - 1});
      if (dim != 0) at[static_cast<size_t>(dim) - 1] = *next;
      for (int other = 0; other < shape.ragged_dims(); ++other) {
        check(at[static_cast<size_t>(other)] < shape.size(component, other),
              "position {} of dim {} lies beyond component {} of shape {}, of size {} there (expected one below it)",
              at[static_cast<size_t>(other)], other + 1, component, nested::ShapeOf{x}, shape.size(component, other));
      }
      *next = nested::row_at(shape, component, at);
    }
  }
  return native::move_to(rows, index.values().device());
}

/// Whether the index of an op over `dim` picks rows: over the batch or a ragged dim.
bool picks_rows(int64_t dim, const NestedTensor& x) { return x.ragged().defined() && dim <= x.ragged_dims(); }

}  // namespace

namespace nested {

NestedTensor gather(const NestedTensor& self, int64_t dim, const NestedTensor& index) {
  dim = nested::wrap_dim(dim, self);
  if (in_components(dim, self))
    return NestedTensor::of_op(segment_gather(self.values(), self.ragged(), positions_in(self, index), index.ragged()),
                               index.ragged());
  if (picks_rows(dim, self)) return NestedTensor::of_op(gather(self.values(), 0, rows_along(index, dim, self)), index.ragged());
  nested::require_same_ragged(self, index, "self", "index");
  return NestedTensor::of_op(gather(self.values(), nested::values_dim(dim, self), index.values()), self.ragged());
}

NestedTensor take_along_dim(const NestedTensor& self, const NestedTensor& indices, int64_t dim) {
  dim = nested::wrap_dim(dim, self);
  if (dim == 0 || self.is_ragged(dim)) return deckle::gather(self, dim, indices);
  nested::require_same_ragged(self, indices, "self", "indices");
  return NestedTensor::of_op(take_along_dim(self.values(), indices.values(), nested::values_dim(dim, self)), self.ragged());
}

NestedTensor scatter_add(const NestedTensor& self, int64_t dim, const NestedTensor& index, const NestedTensor& src) {
  dim = nested::wrap_dim(dim, self);
  nested::require_same_ragged(index, src, "index", "src");
  if (in_components(dim, self)) {
    Tensor source = src.values();  // cropped to the columns of index
    check(source.dim() == index.values().dim(), "src has shape {}, index {} (expected as many dims)", nested::ShapeOf{src},
          nested::ShapeOf{index});
    for (int64_t d = 1; d < source.dim(); ++d)
      source = source.size(d) == index.values().size(d) ? source : narrow(source, d, 0, index.values().size(d));
    return NestedTensor::of_op(
        segment_scatter_add(self.values(), self.ragged(), positions_in(self, index), index.ragged(), source), self.ragged());
  }
  if (picks_rows(dim, self))
    return NestedTensor::of_op(scatter_add(self.values(), 0, rows_along(index, dim, self), src.values()), self.ragged());
  nested::require_same_ragged(self, index, "self", "index");
  return NestedTensor::of_op(scatter_add(self.values(), nested::values_dim(dim, self), index.values(), src.values()),
                             self.ragged());
}

NestedTensor scatter(const NestedTensor& self, int64_t dim, const NestedTensor& index, const NestedTensor& src) {
  dim = nested::wrap_dim(dim, self);
  nested::require_same_ragged(index, src, "index", "src");
  if (picks_rows(dim, self))
    return NestedTensor::of_op(scatter(self.values(), 0, rows_along(index, dim, self), src.values()), self.ragged());
  nested::require_same_ragged(self, index, "self", "index");
  return NestedTensor::of_op(scatter(self.values(), nested::values_dim(dim, self), index.values(), src.values()), self.ragged());
}

NestedTensor scatter_reduce(const NestedTensor& self, int64_t dim, const NestedTensor& index, const NestedTensor& src,
                            ScatterReduction reduction, bool include_self) {
  dim = nested::wrap_dim(dim, self);
  nested::require_same_ragged(index, src, "index", "src");
  if (picks_rows(dim, self))
    return NestedTensor::of_op(
        scatter_reduce(self.values(), 0, rows_along(index, dim, self), src.values(), reduction, include_self), self.ragged());
  nested::require_same_ragged(self, index, "self", "index");
  return NestedTensor::of_op(
      scatter_reduce(self.values(), nested::values_dim(dim, self), index.values(), src.values(), reduction, include_self),
      self.ragged());
}

NestedTensor index_add(const NestedTensor& self, int64_t dim, const Tensor& index, const NestedTensor& source) {
  dim = nested::wrap_dim(dim, self);
  if (!picks_rows(dim, self)) {
    nested::require_same_ragged(self, source, "self", "source");
    return NestedTensor::of_op(index_add(self.values(), dim == 0 ? 0 : nested::values_dim(dim, self), index, source.values()),
                               self.ragged());
  }
  const std::vector<int64_t> wanted = nested::to_indices(index, "index");
  const nested::Rows rows = dim == 0 ? nested::rows_of_components(self.ragged(), wanted)
                                     : nested::rows_at_all(self.ragged(), static_cast<int>(dim) - 1, wanted);
  check(source.ragged() == rows.shape, Argument{"source"}, "has {} (expected those of self at index, {})", Shown{source.ragged()},
        Shown{rows.shape});
  return NestedTensor::of_op(index_add(self.values(), 0, rows.index, source.values()), self.ragged());
}

NestedTensor index_put(const NestedTensor& self, const std::vector<NestedTensor>& indices, const NestedTensor& values,
                       bool accumulate) {
  const auto ragged_dims = static_cast<size_t>(self.ragged_dims());
  check(ragged_dims > 0 && indices.size() == ragged_dims, "{} indices for shape {} (expected one for each of the {} ragged dims)",
        indices.size(), nested::ShapeOf{self}, ragged_dims);
  std::vector<Tensor> places;
  for (const NestedTensor& index : indices) {
    check(index.values().dim() == 1 && index.ragged_dims() == 1, Argument{"indices"}, "has shape {} (expected [B, K])",
          nested::ShapeOf{index});
    check(index.components() == self.components(), "index has {} components, self has {} (expected as many)", index.components(),
          self.components());
    nested::require_same_ragged(index, values, "index", "values");
    places.push_back(native::on_host(indices_of(index, "indices")));
  }
  const RaggedShape& shape = *self.ragged();
  std::vector<int64_t> rows, at(ragged_dims);
  for (int64_t row = 0; row < values.ragged()->rows(); ++row) {
    const int64_t b = values.ragged()->row_map().components()[static_cast<size_t>(row)];
    for (size_t dim = 0; dim < ragged_dims; ++dim) {
      const int64_t size = shape.size(b, static_cast<int>(dim));
      at[dim] = places[dim].data<int64_t>()[row];
      check(at[dim] >= 0 && at[dim] < size, "index {} is out of range for dim {} of component {}, of size {} (expected {})",
            at[dim], dim + 1, b, size, Range{0, size - 1});
    }
    rows.push_back(nested::row_at(shape, b, at));
  }
  return NestedTensor::of_op(index_put(self.values(), {nested::index_tensor(rows)}, values.values(), accumulate), self.ragged());
}

NestedTensor masked_select(const NestedTensor& self, const NestedTensor& mask) {
  nested::require_same_ragged(self, mask, "self", "mask");
  const Tensor values = masked_select(self.values(), mask.values());
  if (!self.ragged().defined()) return {values, Ragged()};
  const int64_t inner = numel_of(mask.values().sizes().subspan(1));
  const Tensor chosen = native::on_host(flat_nonzero(mask.values()));
  std::vector<int64_t> lengths(static_cast<size_t>(self.components()), 0);
  const auto* next = chosen.data<int64_t>();
  const auto* const end = next + chosen.numel();
  for (int64_t b = 0; b < self.components(); ++b) {
    for (; next != end && *next < self.ragged()->offsets()[static_cast<size_t>(b) + 1] * inner; ++next)
      ++lengths[static_cast<size_t>(b)];
  }
  return NestedTensor::from_lengths(values, lengths);
}

NestedTensor embedding_bag(const Tensor& weight, const NestedTensor& indices, const Tensor& per_sample_weights, BagMode mode) {
  if (per_sample_weights.defined())
    fail("per_sample_weights are dense, of shape {} (expected a nested tensor like indices)",
         to_string(per_sample_weights.sizes()));
  check(indices.values().dim() == 1, Argument{"indices"}, "have shape {} (expected [B, L])", nested::ShapeOf{indices});
  const Tensor rows = embedding(weight, indices.values());
  const Ragged& ragged = indices.ragged();
  if (mode == BagMode::max) return {segment_take(rows, std::get<1>(segment_max(rows, ragged))), Ragged()};
  if (mode == BagMode::sum) return {segment_sum(rows, ragged), Ragged()};
  return {masked_fill(segment_mean(rows, ragged), eq(segment_lengths(rows, ragged), 0), 0), Ragged()};
}

NestedTensor embedding_bag(const Tensor& weight, const NestedTensor& indices, const NestedTensor& per_sample_weights,
                           BagMode mode) {
  check(mode == BagMode::sum, "per_sample_weights are given for mode {} (expected sum)", to_string(mode));
  check(indices.values().dim() == 1, Argument{"indices"}, "have shape {} (expected [B, L])", nested::ShapeOf{indices});
  nested::require_same_ragged(indices, per_sample_weights, "indices", "per_sample_weights");
  const Tensor rows = embedding(weight, indices.values()) * unsqueeze(per_sample_weights.values(), -1);
  return {segment_sum(rows, indices.ragged()), Ragged()};
}

}  // namespace nested

NestedTensor index_select(const NestedTensor& self, const NestedTensor& index) {
  return call_as("index_select", {{"self", self}, {"index", index}}, [&]() -> NestedTensor {
    const Tensor rows = as_rows(index, self);
    Dims sizes(rows.sizes());
    for (const int64_t size : self.values().sizes().subspan(1)) sizes.push_back(size);
    return NestedTensor::of_op(view(index_select_or(self.values(), view(rows, {rows.numel()})), sizes), index.ragged());
  });
}

NestedTensor index_add(const NestedTensor& self, const NestedTensor& index, const NestedTensor& source) {
  return call_as("index_add", {{"self", self}, {"index", index}, {"source", source}}, [&]() -> NestedTensor {
    nested::require_same_ragged(index, source, "index", "source");
    return NestedTensor::of_op(index_add(self.values(), 0, row_vector(index, self), source.values()), self.ragged());
  });
}

}  // namespace deckle
