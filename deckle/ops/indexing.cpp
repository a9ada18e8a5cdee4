// x.index, x.index_put: numbers, slices and new axes make a view; what tensors say is then taken from its dims, or written there.

#include "deckle/ops/indexing.h"

#include <algorithm>
#include <span>
#include <vector>

#include "deckle/autograd/history.h"
#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/from_data.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/shown.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/on_device.h"
#include "deckle/ops/positions.h"
#include "deckle/ops/promotion.h"

namespace deckle {
namespace {

using Indices = std::span<const Index>;

/// A view and, for each of its dims, the positions that are taken from it; undefined: the whole dim.
struct Selection {
  Tensor view;
  std::vector<Tensor> positions;
};

/// int64 positions of the elements of a mask that are set, one tensor for each dim.
std::vector<Tensor> positions_of(const Tensor& mask) {
  const std::vector<int64_t> flat = flat_nonzero(mask).to_vector<int64_t>();
  std::vector<Tensor> positions;
  for (int64_t dim = 0, inner = mask.numel(); dim < mask.dim(); ++dim) {
    inner = mask.size(dim) == 0 ? 0 : inner / mask.size(dim);
    std::vector<int64_t> along;
    along.reserve(flat.size());
    for (const int64_t place : flat) along.push_back(place / inner % mask.size(dim));
    positions.push_back(tensor(along));
  }
  return positions;
}

int64_t dims_taken(const Index& index) {
  const Index::Value& value = index.value();
  if (std::holds_alternative<Ellipsis>(value) || std::holds_alternative<NewAxis>(value)) return 0;
  const Tensor* const tensor = std::get_if<Tensor>(&value);
  return tensor != nullptr && tensor->defined() && tensor->dtype() == DType::bool_ ? tensor->dim() : 1;
}

Selection selection_of(const Tensor& self, Indices indices) {
  const OnDevice there(self.device());
  int64_t taken = 0;
  const Index* rest = nullptr;
  for (const Index& index : indices) {
    taken += dims_taken(index);
    if (!std::holds_alternative<Ellipsis>(index.value())) continue;
    check(rest == nullptr, "two ellipses in one index (expected at most one)");
    rest = &index;
  }
  check(taken <= self.dim(), "{} dims are indexed of self of shape {} (expected at most {})", taken, self.sizes(), self.dim());
  Selection selection{self, {}};
  Tensor& view = selection.view;
  std::vector<Tensor>& positions = selection.positions;
  const auto dim = [&] { return static_cast<int64_t>(positions.size()); };
  for (const Index& index : indices) {
    const Index::Value& value = index.value();
    if (const auto* const position = std::get_if<int64_t>(&value)) {
      view = deckle::select(view, dim(), *position);
    } else if (const auto* const range = std::get_if<Slice>(&value)) {
      check(range->step > 0, "step {} of a slice (expected 1 or more; flip reverses)", range->step);
      view = deckle::slice(view, dim(), range->start.value_or(0), range->end.value_or(view.size(dim())), range->step);
      positions.emplace_back();
    } else if (std::holds_alternative<Ellipsis>(value)) {
      positions.resize(positions.size() + static_cast<size_t>(self.dim() - taken));
    } else if (std::holds_alternative<NewAxis>(value)) {
      view = unsqueeze(view, dim());
      positions.emplace_back();
    } else {
      const Tensor& tensor = std::get<Tensor>(value);
      check(tensor.defined(), "a tensor in an index is undefined (expected int64, int32 or bool)");
      if (tensor.dtype() != DType::bool_) {
        check(tensor.dtype() == DType::int64 || tensor.dtype() == DType::int32, "an index is {} (expected int64, int32 or bool)",
              name(tensor.dtype()));
        positions.push_back(tensor.device().is_cpu() ? native::move_to(tensor, self.device()) : tensor);
        continue;
      }
      check(tensor.dim() > 0, "a mask without dims in an index (expected at least one)");
      for (int64_t d = 0; d < tensor.dim(); ++d)
        check(tensor.size(d) == view.size(dim() + d), "mask of shape {} for dims {} to {} of shape {} (expected their sizes)",
              tensor.sizes(), dim(), dim() + tensor.dim() - 1, view.sizes());
      for (Tensor& along : positions_of(tensor)) positions.push_back(std::move(along));
    }
  }
  positions.resize(static_cast<size_t>(view.dim()));
  return selection;
}

/// The dims that tensors index in front, and how to bring the result's dims back to where they belong.
struct Moved {
  Tensor view;                    // indexed dims first
  std::vector<Tensor> positions;  // one for each of them, broadcast to one shape
  Dims shape;                     // that shape
  int64_t place = 0;              // where its dims go in the result
  Dims back;                      // the dims of `view` in the order of the selection
};

Moved move_to_front(const Selection& selection) {
  Moved moved;
  Dims order;
  int64_t first = -1, last = -1;
  for (size_t dim = 0; dim < selection.positions.size(); ++dim) {
    const Tensor& positions = selection.positions[dim];
    if (!positions.defined()) continue;
    if (first < 0) first = static_cast<int64_t>(dim);
    last = static_cast<int64_t>(dim);
    moved.shape = moved.positions.empty() ? Dims(positions.sizes()) : broadcast_shapes(moved.shape, positions.sizes());
    moved.positions.push_back(positions);
    order.push_back(static_cast<int64_t>(dim));
  }
  const auto count = static_cast<int64_t>(order.size());
  for (size_t dim = 0; dim < selection.positions.size(); ++dim) {
    if (!selection.positions[dim].defined()) order.push_back(static_cast<int64_t>(dim));
  }
  moved.view = permute(selection.view, order);
  moved.back.resize(order.size());
  for (size_t dim = 0; dim < order.size(); ++dim) moved.back[static_cast<size_t>(order[dim])] = static_cast<int64_t>(dim);
  moved.place = last - first + 1 == count ? first : 0;
  return moved;
}

/// Dims of a result whose first `count` dims go to `place`, or, inverted, back from there.
Dims order_of(int64_t rank, int64_t count, int64_t place, bool back) {
  Dims order(static_cast<size_t>(rank), 0);
  for (int64_t dim = 0; dim < rank; ++dim) {
    const int64_t to = dim < count ? place + dim : dim - count < place ? dim - count : dim;
    if (back)
      order[static_cast<size_t>(dim)] = to;
    else
      order[static_cast<size_t>(to)] = dim;
  }
  return order;
}

Tensor elements_of(const Moved& moved) {
  const auto indexed = static_cast<int64_t>(moved.positions.size());
  Dims rows = {1}, sizes(moved.shape);
  for (int64_t dim = 0; dim < indexed; ++dim) rows[0] *= moved.view.size(dim);
  for (int64_t dim = indexed; dim < moved.view.dim(); ++dim) {
    rows.push_back(moved.view.size(dim));
    sizes.push_back(moved.view.size(dim));
  }
  return reshape(index_select(reshape(moved.view, rows), 0, flat_positions(moved.view, moved.positions, moved.shape)), sizes);
}

bool any_positions(const Selection& selection) {
  return std::any_of(selection.positions.begin(), selection.positions.end(), [](const Tensor& t) { return t.defined(); });
}

/// `values` as they belong to the dims of `moved`: broadcast to the result, its indexed dims first.
Tensor values_in_front(const Moved& moved, const Tensor& values) {
  const auto indexed = static_cast<int64_t>(moved.positions.size()), count = static_cast<int64_t>(moved.shape.size());
  Dims front(moved.shape);
  for (int64_t dim = indexed; dim < moved.view.dim(); ++dim) front.push_back(moved.view.size(dim));
  const auto rank = static_cast<int64_t>(front.size());
  const Dims order = order_of(rank, count, moved.place, false);
  Dims sizes;
  for (const int64_t dim : order) sizes.push_back(front[static_cast<size_t>(dim)]);
  return permute(expand(values, sizes), order_of(rank, count, moved.place, true));
}

/// `values` in the dtype of what they are written into.
Tensor in_dtype_of(const Tensor& values, const Tensor& into) {
  check(category(into.dtype()) >= category(values.dtype()), Argument{"values"},
        "is {} and cannot be written into {} (expected a dtype that holds it)", name(values.dtype()), name(into.dtype()));
  return to(values, into.dtype());
}

}  // namespace

Tensor Tensor::index(std::initializer_list<Index> indices) && {
  const Tensor from = std::move(*this);
  return from.index(indices);
}
Tensor Tensor::index(std::initializer_list<Index> indices) const& {
  return call_as("index", {{"self", *this}}, [&]() -> Tensor {
    const Selection selection = selection_of(*this, Indices(indices.begin(), indices.size()));
    if (!any_positions(selection)) return selection.view;
    const Moved moved = move_to_front(selection);
    const Tensor taken = elements_of(moved);
    return deckle::permute(taken, order_of(taken.dim(), static_cast<int64_t>(moved.shape.size()), moved.place, false));
  });
}

Tensor Tensor::index_put_(std::initializer_list<Index> indices, const Tensor& values, BoolArg accumulate) const {
  return call_as("index_put_", {{"self", *this}, {"values", values}}, [&]() -> Tensor {
    autograd::check_inplace(*this, true);  // a leaf is told to be one; what is written below is a view of it
    const Selection selection = selection_of(*this, Indices(indices.begin(), indices.size()));
    const Tensor source = in_dtype_of(values, *this);
    if (!any_positions(selection)) {
      if (accumulate)
        selection.view.add_(source);
      else
        selection.view.copy_(deckle::expand(source, selection.view.sizes()));
      return *this;
    }
    const Moved moved = move_to_front(selection);
    moved.view.copy_(deckle::index_put(moved.view, moved.positions, values_in_front(moved, source), accumulate));
    return *this;
  });
}

Tensor Tensor::index_put_(std::initializer_list<Index> indices, const Scalar& value, BoolArg accumulate) const {
  return call_as("index_put_", [&]() -> Tensor {
    check(!value.is_floating() || is_floating_point(), Argument{"value"}, "is {}, for elements of {} (expected an integer)",
          Shown{value}, name(dtype()));
    return index_put_(indices, full({}, value, dtype(), device()), accumulate);
  });
}

Tensor Tensor::index_put(std::initializer_list<Index> indices, const Tensor& values, BoolArg accumulate) const {
  return call_as("index_put", {{"self", *this}, {"values", values}}, [&]() -> Tensor {
    const Selection selection = selection_of(*this, Indices(indices.begin(), indices.size()));
    if (any_positions(selection) && selection.view.numel() == numel()) {  // nothing is left out: what is written is the copy
      const Moved moved = move_to_front(selection);
      const Tensor source = values_in_front(moved, in_dtype_of(values, *this));
      const Tensor result = deckle::index_put(moved.view, moved.positions, source, accumulate);
      return deckle::reshape(deckle::permute(result, moved.back), sizes());
    }
    const Tensor result = deckle::clone(*this);
    result.index_put_(indices, values, accumulate);
    return result;
  });
}

}  // namespace deckle
