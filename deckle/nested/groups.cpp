#include "deckle/nested/groups.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nested {
namespace {

/// Calls body(row, component, index, length) for every run of rows along the last ragged dim, in order: `row` is its first,
/// `index` its place in the ragged dims before.
template <typename Body>
void for_runs(const RaggedShape& shape, Body body) {
  const int last = shape.ragged_dims() - 1;
  std::vector<int64_t> index(static_cast<size_t>(last));
  for (int64_t b = 0; b < shape.components(); ++b) {
    const int64_t length = shape.size(b, last);
    std::fill(index.begin(), index.end(), 0);
    for (int64_t row = shape.offsets()[static_cast<size_t>(b)]; row < shape.offsets()[static_cast<size_t>(b) + 1];
         row += length) {
      body(row, b, index, length);
      for (int dim = last - 1; dim >= 0; --dim) {
        if (++index[static_cast<size_t>(dim)] < shape.size(b, dim)) break;
        index[static_cast<size_t>(dim)] = 0;
      }
    }
  }
}

}  // namespace

bool is_regular(int64_t dim, const NestedTensor& x) { return wrap_dim(dim, x) > x.ragged_dims() || x.ragged_dims() == 0; }

bool are_regular(Ints dims, const NestedTensor& x) {
  if (x.ragged_dims() == 0) return true;
  return !dims.empty() && std::all_of(dims.begin(), dims.end(), [&](int64_t dim) { return is_regular(dim, x); });
}

Groups::Groups(const NestedTensor& x, Ints dims) : x_(x), over_(static_cast<size_t>(x.dim()), dims.empty()) {
  for (const int64_t dim : dims) {
    const auto at = static_cast<size_t>(wrap_dim(dim, x));
    check(!over_[at], "dim {} stands twice in {} (expected different dims of shape {})", dim, dims, ShapeOf{x});
    over_[at] = true;
  }
  values_ = x.values();
  group_rows();
  fold_regular_dims();
}

void Groups::group_rows() {
  const RaggedShape& shape = *x_.ragged();
  std::vector<int> kept;  // ragged dims that number the groups
  for (int dim = 0; dim < shape.ragged_dims(); ++dim) {
    if (!over_[static_cast<size_t>(dim) + 1]) kept.push_back(dim);
  }
  if (!over_[0] && kept.empty()) {
    ragged_ = x_.ragged();
    return;
  }
  // The first group of each component; where the batch is reduced all share theirs, which the largest sizes number.
  std::vector<int64_t> largest, first(static_cast<size_t>(shape.components()) + 1, 0);
  for (const int dim : kept) largest.push_back(shape.max_size(dim));
  for (int64_t b = 0; !over_[0] && b < shape.components(); ++b) {
    int64_t groups = 1;
    for (const int dim : kept) groups *= shape.size(b, dim);
    first[static_cast<size_t>(b) + 1] = first[static_cast<size_t>(b)] + groups;
  }
  const int64_t count =
      over_[0] ? std::accumulate(largest.begin(), largest.end(), int64_t{1}, std::multiplies<>()) : first.back();

  // The groups of a run's rows are one, or follow each other.
  const int last = shape.ragged_dims() - 1;
  const int64_t step = !kept.empty() && kept.back() == last ? 1 : 0;
  const auto first_group = [&](int64_t b, const std::vector<int64_t>& index) {
    int64_t group = 0;
    for (size_t k = 0; k < kept.size(); ++k) {
      group =
          group * (over_[0] ? largest[k] : shape.size(b, kept[k])) + (kept[k] == last ? 0 : index[static_cast<size_t>(kept[k])]);
    }
    return first[static_cast<size_t>(b)] + group;
  };
  std::vector<int64_t> lengths(static_cast<size_t>(count), 0);
  for_runs(shape, [&](int64_t, int64_t b, const std::vector<int64_t>& index, int64_t length) {
    int64_t* const of_run = lengths.data() + first_group(b, index);
    for (int64_t i = 0; i < length; ++i) ++of_run[i * step];
  });
  const bool leading = kept.empty() || kept.back() == static_cast<int>(kept.size()) - 1;
  if (over_[0] ? kept.empty() : leading) {  // one after another as they are
    ragged_ = Ragged::from_lengths(lengths);
    return;
  }
  std::vector<int64_t> next(lengths.size(), 0), order(static_cast<size_t>(shape.rows()));
  std::exclusive_scan(lengths.begin(), lengths.end(), next.begin(), int64_t{0});
  for_runs(shape, [&](int64_t row, int64_t b, const std::vector<int64_t>& index, int64_t length) {
    int64_t* const of_run = next.data() + first_group(b, index);
    for (int64_t i = 0; i < length; ++i) order[static_cast<size_t>(of_run[i * step]++)] = row + i;
  });
  ragged_ = Ragged(std::make_shared<const RaggedShape>(std::move(lengths), 1, std::move(order)));
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
  if (!ragged_->order().empty()) values_ = index_select(values_, 0, index_tensor(ragged_->order()));
  sizes[0] = values_.size(0) * folded;
  values_ = reshape(std::is_sorted(order.begin(), order.end()) ? values_ : permute(values_, order), sizes);
  std::vector<int64_t> lengths;
  for (int64_t group = 0; group < ragged_->components(); ++group) {
    const auto at = static_cast<size_t>(group);
    lengths.push_back((ragged_->offsets()[at + 1] - ragged_->offsets()[at]) * folded);
  }
  ragged_ = Ragged::from_lengths(lengths);
}

NestedTensor Groups::reduced(const Tensor& rows, bool keepdim) const {
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
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < shape.components(); ++b) {
    for (const int dim : left) lengths.push_back(over_[static_cast<size_t>(dim) + 1] ? 1 : shape.size(b, dim));
  }
  return {values, Ragged(std::make_shared<const RaggedShape>(std::move(lengths), static_cast<int>(left.size())))};
}

Tensor Groups::positions(const Tensor& rows) const {
  const int over = static_cast<int>(std::find(over_.begin(), over_.end(), true) - over_.begin()), last = x_.ragged_dims();
  std::vector<int64_t> place(static_cast<size_t>(x_.ragged()->rows()));
  for_runs(*x_.ragged(), [&](int64_t row, int64_t b, const std::vector<int64_t>& index, int64_t length) {
    int64_t* const of_run = place.data() + row;
    if (over == last)
      std::iota(of_run, of_run + length, int64_t{0});
    else
      std::fill_n(of_run, length, over == 0 ? b : index[static_cast<size_t>(over) - 1]);
  });
  const Tensor result = empty(rows.sizes(), DType::int64);
  const int64_t* const from = rows.data<int64_t>();
  int64_t* const to = result.data<int64_t>();
  parallel_for(rows.numel(), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[i] = from[i] < 0 ? -1 : place[static_cast<size_t>(from[i])];
    }
  });
  return result;
}

}  // namespace deckle::nested
