// Elements and rows by ragged index, by mask, and bags of embeddings.

#include "deckle/nested/indexing.h"

#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/named.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

/// Positions in the components of x, as int64; their range is yet to be checked.
Tensor positions_in(const NestedTensor& x, const NestedTensor& index) {
  check(x.ragged_dims() == 1 && index.ragged_dims() == 1, "self has shape {}, index {} (expected one ragged dim each)", nested::ShapeOf{x},
        nested::ShapeOf{index});
  check(index.components() == x.components(), "index has {} components, self has {}", index.components(), x.components());
  check(index.dtype() == DType::int64 || index.dtype() == DType::int32, "index is {} (expected int64 or int32)", name(index.dtype()));
  return to(index.values(), DType::int64);
}

/// Positions in the components of x, as rows of its values.
Tensor as_rows(const NestedTensor& index, const NestedTensor& x) {
  const Tensor rows = clone(positions_in(x, index));
  const int64_t inner = numel_of(rows.sizes().subspan(1));
  auto* next = rows.data<int64_t>();
  for (int64_t b = 0; b < x.components(); ++b) {
    const int64_t length = x.ragged()->size(b), offset = x.ragged()->offsets()[static_cast<size_t>(b)];
    for (int64_t i = 0; i < index.ragged()->size(b) * inner; ++i, ++next) {
      check(*next >= 0 && *next < length, "index {} is out of range for component {}, of length {}", *next, b, length);
      *next += offset;
    }
  }
  return rows;
}

Tensor row_vector(const NestedTensor& index, const NestedTensor& x) {
  const Tensor rows = as_rows(index, x);
  check(rows.dim() == 1, "index has shape {} (expected one index for each row, [B, K])", nested::ShapeOf{index});
  return rows;
}

}  // namespace

namespace nested {

NestedTensor gather(const NestedTensor& self, int64_t dim, const NestedTensor& index) {
  dim = nested::wrap_dim(dim, self);
  check(dim != 0, "dim 0 is the batch of shape {}: components have no order to gather in (use index_select)", nested::ShapeOf{self});
  if (self.is_ragged(dim))
    return {segment_gather(self.values(), self.ragged(), positions_in(self, index), index.ragged()), index.ragged()};
  nested::require_same_ragged(self, index);
  return {gather(self.values(), nested::values_dim(dim, self), index.values()), self.ragged()};
}

NestedTensor scatter_add(const NestedTensor& self, int64_t dim, const NestedTensor& index, const NestedTensor& src) {
  dim = nested::wrap_dim(dim, self);
  check(dim != 0, "dim 0 is the batch of shape {}: components have no order to scatter in (use index_add)", nested::ShapeOf{self});
  nested::require_same_ragged(index, src);
  if (self.is_ragged(dim)) {
    Tensor source = src.values();  // its part beside index
    check(source.dim() == index.values().dim(), "src has shape {}, index {} (expected as many dims)", nested::ShapeOf{src},
          nested::ShapeOf{index});
    for (int64_t d = 1; d < source.dim(); ++d)
      source = source.size(d) == index.values().size(d) ? source : narrow(source, d, 0, index.values().size(d));
    return {segment_scatter_add(self.values(), self.ragged(), positions_in(self, index), index.ragged(), source), self.ragged()};
  }
  nested::require_same_ragged(self, index);
  return {scatter_add(self.values(), nested::values_dim(dim, self), index.values(), src.values()), self.ragged()};
}

NestedTensor masked_select(const NestedTensor& self, const NestedTensor& mask) {
  nested::require_same_ragged(self, mask);
  const Tensor values = masked_select(self.values(), mask.values());
  if (!self.ragged().defined()) return {values, Ragged()};
  const int64_t inner = numel_of(mask.values().sizes().subspan(1));
  const Tensor chosen = flat_nonzero(mask.values());
  std::vector<int64_t> lengths(static_cast<size_t>(self.components()), 0);
  const auto* next = chosen.data<int64_t>();
  const auto* const end = next + chosen.numel();
  for (int64_t b = 0; b < self.components(); ++b) {
    for (; next != end && *next < self.ragged()->offsets()[static_cast<size_t>(b) + 1] * inner; ++next) ++lengths[static_cast<size_t>(b)];
  }
  return NestedTensor::from_lengths(values, lengths);
}

NestedTensor embedding_bag(const Tensor& weight, const NestedTensor& indices, const Tensor& per_sample_weights, std::string_view mode) {
  if (per_sample_weights.defined()) fail("per_sample_weights are dense, of shape {} (expected a nested tensor like indices)", to_string(per_sample_weights.sizes()));
  check(mode == "sum" || mode == "mean" || mode == "max", "mode is '{}' (expected sum, mean or max)", mode);
  check(indices.values().dim() == 1, "indices have shape {} (expected [B, L])", nested::ShapeOf{indices});
  const Tensor rows = embedding(weight, indices.values());
  const Ragged& ragged = indices.ragged();
  if (mode == "max") return {segment_take(rows, std::get<1>(segment_max(rows, ragged))), Ragged()};
  if (mode == "sum") return {segment_sum(rows, ragged), Ragged()};
  return {masked_fill(segment_mean(rows, ragged), eq(segment_lengths(rows, ragged), 0), 0), Ragged()};
}

NestedTensor embedding_bag(const Tensor& weight, const NestedTensor& indices, const NestedTensor& per_sample_weights, std::string_view mode) {
  check(mode == "sum", "per_sample_weights need mode sum, not {}", mode);
  check(indices.values().dim() == 1, "indices have shape {} (expected [B, L])", nested::ShapeOf{indices});
  nested::require_same_ragged(indices, per_sample_weights);
  const Tensor rows = embedding(weight, indices.values()) * unsqueeze(per_sample_weights.values(), -1);
  return {segment_sum(rows, indices.ragged()), Ragged()};
}

}  // namespace nested

NestedTensor index_select(const NestedTensor& self, const NestedTensor& index) {
  return nested::named("index_select", [&]() -> NestedTensor {
    const Tensor rows = as_rows(index, self);
    Dims sizes(rows.sizes());
    for (const int64_t size : self.values().sizes().subspan(1)) sizes.push_back(size);
    return {view(index_select_or(self.values(), view(rows, {rows.numel()})), sizes), index.ragged()};
  });
}

NestedTensor index_add(const NestedTensor& self, const NestedTensor& index, const NestedTensor& source) {
  return nested::named("index_add", [&]() -> NestedTensor {
    nested::require_same_ragged(index, source);
    return {index_add(self.values(), 0, row_vector(index, self), source.values()), self.ragged()};
  });
}

NestedTensor index_put(const NestedTensor& self, const NestedTensor& index, const NestedTensor& values, bool accumulate) {
  return nested::named("index_put", [&]() -> NestedTensor {
    nested::require_same_ragged(index, values);
    return {index_put(self.values(), {row_vector(index, self)}, values.values(), accumulate), self.ragged()};
  });
}

}  // namespace deckle
