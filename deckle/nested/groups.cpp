#include "deckle/nested/groups.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/core/kept.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nested {
bool is_regular(int64_t dim, const NestedTensor& x) { return wrap_dim(dim, x) > x.ragged_dims() || x.ragged_dims() == 0; }

bool are_regular(IntSpan dims, const NestedTensor& x) {
  if (x.ragged_dims() == 0) return true;
  return !dims.empty() && std::all_of(dims.begin(), dims.end(), [&](int64_t dim) { return is_regular(dim, x); });
}

Groups::Groups(const NestedTensor& x, IntSpan dims) : x_(x), over_(static_cast<size_t>(x.dim()), dims.empty()) {
  for (const int64_t dim : dims) {
    const auto at = static_cast<size_t>(wrap_dim(dim, x));
    check(!over_[at], "dim {} stands twice in {} (expected different dims of shape {})", dim, dims, ShapeOf{x});
    over_[at] = true;
  }
  values_ = x.values();
  ragged_ = group_rows();
  fold_regular_dims();
}

Ragged Groups::group_rows() const {
  uint64_t dims = 0;
  bool whole_components = !over_[0];
  for (int dim = 0; dim <= x_.ragged_dims(); ++dim) {
    if (over_[static_cast<size_t>(dim)]) dims |= uint64_t{1} << dim;
    whole_components = whole_components && (dim == 0 || over_[static_cast<size_t>(dim)]);
  }
  return whole_components ? x_.ragged() : Ragged(x_.ragged()->row_map().groups(dims));
}

void Groups::fold_regular_dims() {
  Dims order = {0}, sizes = {0};
  int64_t folded = 1;
  for (const bool over : {true, false}) {
    for (int64_t dim = 1; dim < values_.dim(); ++dim) {
      if (over_[static_cast<size_t>(dim + x_.ragged_dims())] != over) continue;
      order.push_back(dim);
      if (over)
        folded *= values_.size(dim);
      else
        sizes.push_back(values_.size(dim));
    }
  }
  if (sizes.size() == order.size()) return;
  if (!ragged_->order().empty()) {
    const Tensor order_of_rows = kept_value(*ragged_, "order", {}, [&] { return index_tensor(ragged_->order()); });
    values_ = index_select(values_, 0, order_of_rows);
  }
  sizes[0] = values_.size(0) * folded;
  values_ = reshape(std::is_sorted(order.begin(), order.end()) ? values_ : permute(values_, order), sizes);
  ragged_ = kept_shape(*ragged_, "folded", {folded}, [&] {
    std::vector<int64_t> lengths;
    for (int64_t group = 0; group < ragged_->components(); ++group) {
      lengths.push_back((ragged_->offset(group + 1) - ragged_->offset(group)) * folded);
    }
    return Ragged::from_lengths(lengths);
  });
}

NestedTensor Groups::reduce(const Tensor& rows, bool keepdim) const {
  const RaggedShape& shape = *x_.ragged();
  const int ragged_dims = shape.ragged_dims();
  Dims sizes;
  std::vector<int> left;  // ragged dims of the result, which keeps its batch
  bool ragged_left = false;
  for (int dim = 0; dim < ragged_dims; ++dim) {
    const bool kept = !over_[static_cast<size_t>(dim) + 1];
    ragged_left = ragged_left || kept;
    if (kept || keepdim) left.push_back(dim);
  }
  ragged_left = ragged_left && !over_[0];
  if (!over_[0])
    sizes.push_back(rows.size(0));
  else if (keepdim)
    sizes.push_back(1);
  for (const int dim : left) {
    if (ragged_left) break;  // they stay in the rows
    sizes.push_back(over_[static_cast<size_t>(dim) + 1] ? 1 : shape.max_size(dim));
  }
  for (int64_t dim = 1; dim < x_.values().dim(); ++dim) {
    const bool over = over_[static_cast<size_t>(dim + ragged_dims)];
    if (!over) sizes.push_back(x_.values().size(dim));
    if (over && keepdim) sizes.push_back(1);
  }
  const Tensor values = reshape(rows, sizes);
  if (!ragged_left) return {values, Ragged()};
  Dims key(left.begin(), left.end());
  for (const int dim : left) key.push_back(over_[static_cast<size_t>(dim) + 1] ? 1 : 0);
  const Ragged reduced = kept_shape(*x_.ragged(), "reduced", key, [&] {
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < shape.components(); ++b) {
      for (const int dim : left) lengths.push_back(over_[static_cast<size_t>(dim) + 1] ? 1 : shape.size(b, dim));
    }
    return Ragged(std::make_shared<const RaggedShape>(std::move(lengths), static_cast<int>(left.size())));
  });
  return {values, reduced};
}

Tensor Groups::positions(const Tensor& rows) const {
  const int over = static_cast<int>(std::find(over_.begin(), over_.end(), true) - over_.begin());
  const RowMap& map = x_.ragged()->row_map();
  const std::span<const int64_t> components = map.components();
  const auto position = [&](int64_t row) {
    return over == 0 ? components[static_cast<size_t>(row)] : map.position(row, over - 1);
  };
  if (!rows.device().is_cpu()) {  // which the host need not wait for: it tells the positions of all rows
    const OnDevice there(rows.device());
    const Tensor of_all = kept_value(*x_.ragged(), "positions", {over}, [&] {
      std::vector<int64_t> of_rows(components.size());
      for (size_t row = 0; row < of_rows.size(); ++row) of_rows[row] = position(static_cast<int64_t>(row));
      return index_tensor(of_rows);
    });
    return reshape(index_select_or(of_all, reshape(rows, {rows.numel()}), -1.0), rows.sizes());
  }
  const Tensor here = native::contiguous(rows), result = empty(rows.sizes(), DType::int64);
  const int64_t* const from = here.data<int64_t>();
  int64_t* const to = result.data<int64_t>();
  parallel_for(rows.numel(), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = from[i] < 0 ? -1 : position(from[i]);
  });
  return result;
}

}  // namespace deckle::nested
