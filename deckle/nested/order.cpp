// flip and topk of nested tensors over the batch and ragged dims; over regular dims they are the dense op on the values.

#include <algorithm>
#include <numeric>

#include "deckle/base/check.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/sort.h"
#include "deckle/nested/groups.h"
#include "deckle/nested/kept_rows.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/sort.h"

namespace deckle::nested {

NestedTensor flip(const NestedTensor& self, IntSpan dims) {
  NestedTensor result = self;
  for (const int64_t dim : dims) {
    const int64_t at = nested::wrap_dim(dim, self);
    if (nested::is_regular(at, self)) {
      result = NestedTensor::of_op(flip(result.values(), {nested::values_dim(at, self)}), result);
    } else if (at == 0) {
      result = nested::take(result, nested::kept_rows(*result.ragged(), "flipped batch", {}, [&] {
                              std::vector<int64_t> components(static_cast<size_t>(self.components()));
                              std::iota(components.rbegin(), components.rend(), 0);
                              return nested::rows_of_components(result.ragged(), components);
                            }));
    } else {
      const RaggedShape& shape = *result.ragged();
      const int along = static_cast<int>(at) - 1;
      const auto backwards = [&](int64_t b, std::vector<int64_t>& positions) {
        for (int64_t i = shape.size(b, along); i-- > 0;) positions.push_back(i);
      };
      const Tensor index =
          kept_value(*result.ragged(), "flip", {along}, [&] { return nested::rows_at(result.ragged(), along, backwards).index; });
      result = {index_select_or(result.values(), index), result.ragged()};
    }
  }
  return result;
}

namespace {

/// Component i of the result holds the i-th largest of each position, of the positions that more than i components reach.
std::tuple<NestedTensor, NestedTensor> topk_of_positions(const NestedTensor& self, int64_t k, bool largest) {
  check(self.ragged_dims() == 1,
        "dim 0 is the batch of shape {}: the positions that several components of {} ragged dims reach are no component "
        "(expected one ragged dim, or a dim in 1..{})",
        nested::ShapeOf{self}, self.ragged_dims(), self.dim() - 1);
  const nested::Groups positions(self, {0});
  const Tensor rows = segment_argsort(positions.values().detach(), positions.ragged(), largest);
  const RaggedShape& reached = *positions.ragged();  // by how many components; non-increasing
  const int64_t ranks = std::min(k, self.components());
  const nested::Rows first = nested::kept_rows(*positions.ragged(), "topk", {ranks}, [&]() -> nested::Rows {
    const auto order = reached.order();  // empty: the rows of a position are contiguous
    std::vector<int64_t> index, lengths;
    for (int64_t i = 0; i < ranks; ++i) {
      int64_t length = 0;
      for (; length < reached.components() && reached.size(length) > i; ++length) {
        const int64_t place = reached.offsets()[static_cast<size_t>(length)] + i;
        index.push_back(order.empty() ? place : order[static_cast<size_t>(place)]);
      }
      lengths.push_back(length);
    }
    return {nested::index_tensor(index), Ragged::from_lengths(lengths)};
  });
  const Tensor chosen = index_select(rows, 0, first.index);
  return {NestedTensor(segment_take(positions.values(), chosen), first.shape),
          NestedTensor(positions.positions(chosen), first.shape)};
}

}  // namespace

std::tuple<NestedTensor, NestedTensor> topk(const NestedTensor& self, int64_t k, int64_t dim, bool largest) {
  if (nested::is_regular(dim, self)) {
    const auto [values, indices] = topk(self.values(), k, nested::values_dim(dim, self), {.largest = largest});
    return {NestedTensor::of_op(values, self.ragged()), NestedTensor::of_op(indices, self.ragged())};
  }
  const int64_t at = nested::wrap_dim(dim, self);
  check(k >= 0, Argument{"k"}, "is {} (expected 0 or more)", k);
  if (at == 0) return topk_of_positions(self, k, largest);
  // An argsort gives the rows, which are then gathered, so that the gradient is a scatter and not that of a sort.
  const nested::Groups groups(self, {at});
  const Tensor rows = segment_argsort(groups.values().detach(), groups.ragged(), largest);
  const int along = static_cast<int>(at) - 1;
  const nested::Rows first = nested::kept_rows(*self.ragged(), "first", {along, k}, [&] {
    return nested::rows_at(self.ragged(), along, [&](int64_t b, std::vector<int64_t>& positions) {
      for (int64_t i = 0; i < std::min(k, self.ragged()->size(b, along)); ++i) positions.push_back(i);
    });
  });
  const Tensor chosen = index_select_or(rows, first.index);
  return {NestedTensor(segment_take(groups.values(), chosen), first.shape), NestedTensor(groups.positions(chosen), first.shape)};
}

}  // namespace deckle::nested
