// Other shapes of nested tensors: reshape, view, expand on regular dims; flatten, squeeze, unsqueeze, transpose and permute of
// ragged ones too.

#include <algorithm>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/kept_rows.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/matmul.h"

namespace deckle::nested {
namespace {

/// The sizes of the values for `sizes` of x, whose batch and ragged entries must be -1. `keeps_missing`: a -1 in a regular dim is
/// kept (expand) instead of inferred.
Dims values_sizes(const NestedTensor& x, IntSpan sizes, bool keeps_missing) {
  const auto leading = static_cast<size_t>(x.ragged_dims()) + 1;
  check(sizes.size() >= leading, "sizes {} for shape {} (expected the batch and ragged dims, as -1, then regular ones)", sizes,
        nested::ShapeOf{x});
  check(sizes[0] == -1 || sizes[0] == x.components(), "size {} for the batch of shape {}, which stays (expected -1)", sizes[0],
        nested::ShapeOf{x});
  for (size_t dim = 1; dim < leading; ++dim) {
    check(sizes[dim] == -1, "size {} for the ragged dim {} of shape {}, which stays (expected -1)", sizes[dim], dim,
          nested::ShapeOf{x});
  }
  Dims result = {x.values().size(0)};
  for (const int64_t size : sizes.subspan(leading)) result.push_back(size);
  if (keeps_missing) return result;
  Dims given(sizes.subspan(leading));
  const auto missing = std::find(given.begin(), given.end(), -1);
  const bool fills = missing != given.end();
  if (fills) *missing = 1;
  check(std::find(given.begin(), given.end(), -1) == given.end(),
        "sizes {} leave more than one regular dim open (expected at most one -1 among them)", sizes);
  const int64_t inner = numel_of(x.values().sizes().subspan(1)), count = numel_of(given);
  check(fills ? count > 0 && inner % count == 0 : count == inner,
        "regular sizes of {} do not fit the {} elements per row of shape {} (expected as many)", sizes, inner,
        nested::ShapeOf{x});
  if (fills) *std::find(result.begin(), result.end(), -1) = inner / count;
  return result;
}

/// Sizes of component b: ragged, then regular.
std::vector<int64_t> component_sizes(const NestedTensor& x, int64_t b) {
  std::vector<int64_t> sizes;
  for (int dim = 0; dim < x.ragged_dims(); ++dim) sizes.push_back(x.ragged()->size(b, dim));
  for (int64_t dim = 1; dim < x.values().dim(); ++dim) sizes.push_back(x.values().size(dim));
  return sizes;
}

/// (first, count) if `order` swaps the dims [0, first) with [first, count) and keeps the rest, else (0, 0).
std::pair<int64_t, int64_t> swapped_runs(std::span<const int64_t> order) {
  const auto rank = static_cast<int64_t>(order.size()), first = order[0];
  const auto second = static_cast<int64_t>(std::find(order.begin(), order.end(), 0) - order.begin()), count = first + second;
  if (first == 0 || count > rank) return {0, 0};
  for (int64_t dim = 0; dim < rank; ++dim) {
    const int64_t from = dim < second ? first + dim : dim < count ? dim - second : dim;
    if (order[static_cast<size_t>(dim)] != from) return {0, 0};
  }
  return {first, count};
}

/// Each component as a matrix of the dims [0, first) and [first, count), and its transpose.
struct Matrices {
  Ragged sizes, transposed;
};
Matrices matrices_of(const NestedTensor& x, int64_t first, int64_t count) {
  std::vector<int64_t> sizes, transposed;
  for (int64_t b = 0; b < x.components(); ++b) {
    const std::vector<int64_t> own = component_sizes(x, b);
    int64_t rows = 1, cols = 1;
    for (int64_t dim = 0; dim < count; ++dim) (dim < first ? rows : cols) *= own[static_cast<size_t>(dim)];
    sizes.insert(sizes.end(), {rows, cols});
    transposed.insert(transposed.end(), {cols, rows});
  }
  return {std::make_shared<const RaggedShape>(std::move(sizes), 2),
          std::make_shared<const RaggedShape>(std::move(transposed), 2)};
}

/// A permutation of the dims of a component (0: its first ragged dim) that moves a ragged one.
struct Permutation {
  std::span<const int64_t> order;
  int64_t lead;          // dims that move
  int64_t ragged_after;  // dims that are ragged afterwards
  int64_t inner;         // elements of a row that move, each a block of the dims that stay, which may be empty
};

/// The permuted shape and, unless components are transposed as matrices, the index of what moves.
Rows permuted_rows(const NestedTensor& x, const Permutation& to, bool matrices) {
  std::vector<int64_t> ragged_sizes, first, moved_sizes, moved_strides;
  for (int64_t b = 0; b < x.components(); ++b) {
    const std::vector<int64_t> sizes = component_sizes(x, b);
    std::vector<int64_t> strides(static_cast<size_t>(to.lead), 1);
    for (int64_t dim = to.lead - 2; dim >= 0; --dim)
      strides[static_cast<size_t>(dim)] = strides[static_cast<size_t>(dim) + 1] * sizes[static_cast<size_t>(dim) + 1];
    for (int64_t dim = 0; dim < to.lead; ++dim) {
      const auto from = static_cast<size_t>(to.order[static_cast<size_t>(dim)]);
      moved_sizes.push_back(sizes[from]);
      moved_strides.push_back(strides[from]);
      if (dim < to.ragged_after) ragged_sizes.push_back(sizes[from]);
    }
    first.push_back(x.ragged()->offset(b) * to.inner);
  }
  const Ragged ragged(std::make_shared<const RaggedShape>(std::move(ragged_sizes), static_cast<int>(to.ragged_after)));
  if (matrices) return {Tensor(), ragged};
  const RaggedShape moved(std::move(moved_sizes), static_cast<int>(to.lead));
  return {affine_index(moved, first, moved_strides), ragged};
}

NestedTensor permute_components(const NestedTensor& x, std::span<const int64_t> order) {
  const auto rank = static_cast<int64_t>(order.size()), ragged_dims = static_cast<int64_t>(x.ragged_dims());
  int64_t lead = rank, ragged_after = 0;
  while (lead > ragged_dims && order[static_cast<size_t>(lead) - 1] == lead - 1) --lead;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (order[static_cast<size_t>(dim)] < ragged_dims) ragged_after = dim + 1;
  }
  const auto runs = swapped_runs(order);  // not a structured binding: clang 16 has none in lambdas where OpenMP is on
  const int64_t swap_at = runs.first, swapped = runs.second;
  const bool matrices = swapped >= ragged_dims && swapped > 0;  // then the rest are regular blocks
  const Permutation to{order, lead, ragged_after,
                       numel_of(x.values().sizes().subspan(1, static_cast<size_t>(lead - ragged_dims)))};
  Dims key(order);  // with the regular sizes: what the rows depend on
  for (const int64_t size : x.values().sizes().subspan(1)) key.push_back(size);
  const Rows rows = kept_rows(*x.ragged(), "permuted", key, [&] { return permuted_rows(x, to, matrices); });
  Dims flat = {x.values().size(0) * to.inner}, sizes = {rows.shape->rows()};
  for (int64_t dim = ragged_after; dim < rank; ++dim)
    sizes.push_back(x.values().size(order[static_cast<size_t>(dim)] - ragged_dims + 1));
  for (int64_t dim = lead; dim < rank; ++dim) flat.push_back(x.values().size(dim - ragged_dims + 1));
  if (!matrices) return {reshape(index_select_or(reshape(x.values(), flat), rows.index), sizes), rows.shape};
  const Matrices each = kept_value(*x.ragged(), "matrices", key, [&] { return matrices_of(x, swap_at, swapped); });
  return {view(grouped_transpose(x.values(), each.sizes, each.transposed), sizes), rows.shape};
}

}  // namespace

NestedTensor reshape(const NestedTensor& self, IntSpan sizes) {
  return NestedTensor::of_op(reshape(self.values(), values_sizes(self, sizes, false)), self);
}

NestedTensor view(const NestedTensor& self, IntSpan sizes) {
  return NestedTensor::of_op(view(self.values(), values_sizes(self, sizes, false)), self);
}

NestedTensor expand(const NestedTensor& self, IntSpan sizes) {
  const Dims wanted = values_sizes(self, sizes, true);
  Tensor values = self.values();
  for (int64_t added = static_cast<int64_t>(wanted.size()) - values.dim(); added > 0; --added) {  // new dims come after the rows
    check(wanted[static_cast<size_t>(added)] != -1, "size -1 of a new dim in {} for shape {} (expected its size)", sizes,
          nested::ShapeOf{self});
    values = unsqueeze(values, 1);
  }
  return NestedTensor::of_op(expand(values, wanted), self);
}

NestedTensor flatten(const NestedTensor& self, int64_t start_dim, int64_t end_dim) {
  const int64_t first = nested::wrap_dim(start_dim, self), last = nested::wrap_dim(end_dim, self),
                ragged_dims = self.ragged_dims();
  check(first <= last, "start_dim {} comes after end_dim {} (expected start_dim <= end_dim)", start_dim, end_dim);
  if (first == last) return self;
  if (first > ragged_dims) return NestedTensor::of_op(flatten(self.values(), first - ragged_dims, last - ragged_dims), self);
  if (first == 0) {
    check(last >= ragged_dims,
          "dims 0..{} of shape {} leave ragged dims without their components (expected all of them, 0..{}, or more)", last,
          nested::ShapeOf{self}, ragged_dims);
    return {flatten(self.values(), 0, last - ragged_dims), Ragged()};
  }
  // The ragged dims from `first` on, and the regular ones up to `last`, become one.
  const int64_t regular = std::max<int64_t>(0, last - ragged_dims), merged_ragged = std::min(last, ragged_dims);
  const int64_t width = numel_of(self.values().sizes().subspan(1, static_cast<size_t>(regular)));
  const Ragged flat = kept_shape(*self.ragged(), "flat", {first, merged_ragged, width}, [&] {
    std::vector<int64_t> sizes;
    for (int64_t b = 0; b < self.components(); ++b) {
      int64_t merged = width;
      for (int64_t dim = 1; dim <= ragged_dims; ++dim) {
        const int64_t size = self.ragged()->size(b, static_cast<int>(dim) - 1);
        if (dim < first || dim > merged_ragged)
          sizes.push_back(size);
        else
          merged *= size;
        if (dim == merged_ragged) sizes.push_back(merged);
      }
    }
    const int dims = static_cast<int>(ragged_dims - (merged_ragged - first));
    return Ragged(std::make_shared<const RaggedShape>(std::move(sizes), dims));
  });
  return {regular == 0 ? self.values() : flatten(self.values(), 0, regular), flat};
}

NestedTensor permute(const NestedTensor& self, IntSpan dims) {
  check(static_cast<int64_t>(dims.size()) == self.dim(), "{} dims for shape {} (expected {})", dims.size(), nested::ShapeOf{self},
        self.dim());
  std::vector<int64_t> order;
  std::vector<bool> seen(dims.size(), false);
  for (const int64_t dim : dims) {
    const int64_t wrapped = nested::wrap_dim(dim, self);
    check(!seen[static_cast<size_t>(wrapped)], "dim {} is given twice in {} (expected different dims)", dim, dims);
    seen[static_cast<size_t>(wrapped)] = true;
    order.push_back(wrapped - 1);
  }
  check(dims.empty() || order[0] == -1, "dims {} move the batch, which stays first (expected 0 first)", dims);
  order.erase(order.begin());
  const auto ragged_dims = static_cast<size_t>(self.ragged_dims());
  bool regular_only = true;
  for (size_t dim = 0; dim < ragged_dims; ++dim) regular_only = regular_only && order[dim] == static_cast<int64_t>(dim);
  if (!regular_only) return permute_components(self, order);
  Dims values_order = {0};
  for (size_t dim = ragged_dims; dim < order.size(); ++dim)
    values_order.push_back(order[dim] - static_cast<int64_t>(ragged_dims) + 1);
  return NestedTensor::of_op(permute(self.values(), values_order), self);
}

NestedTensor squeeze(const NestedTensor& self, int64_t dim) {
  dim = nested::wrap_dim(dim, self);
  if (!self.is_ragged(dim)) return NestedTensor::of_op(squeeze(self.values(), nested::values_dim(dim, self)), self);
  const int along = static_cast<int>(dim) - 1;
  for (int64_t b = 0; b < self.components(); ++b) {
    check(self.ragged()->size(b, along) == 1,
          "component {} of shape {} has size {} in the ragged dim {} (expected 1 in every component)", b, nested::ShapeOf{self},
          self.ragged()->size(b, along), dim);
  }
  return {self.values(), nested::without_ragged_dim(self.ragged(), along)};
}

NestedTensor unsqueeze(const NestedTensor& self, int64_t dim) {
  dim = nested::wrap_new_dim(dim, self);
  const int64_t ragged_dims = self.ragged_dims();
  if (dim > ragged_dims) return NestedTensor::of_op(unsqueeze(self.values(), dim - ragged_dims), self);
  return {self.values(), nested::with_ragged_dim(self.ragged(), static_cast<int>(dim) - 1)};
}

NestedTensor transpose(const NestedTensor& self, int64_t dim0, int64_t dim1) {
  const int64_t first = nested::wrap_dim(dim0, self), second = nested::wrap_dim(dim1, self);
  std::vector<int64_t> dims(static_cast<size_t>(self.dim()));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<size_t>(first)], dims[static_cast<size_t>(second)]);
  return nested::permute(self, dims);
}

}  // namespace deckle::nested
