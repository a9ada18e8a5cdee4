#include "deckle/core/row_map.h"

#include <algorithm>
#include <numeric>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/mirror.h"
#include "deckle/core/kept.h"
#include "deckle/core/ragged_shape.h"

namespace deckle {

RowMap::~RowMap() {
  cuda::drop_mirrors(this);
  drop_kept(this);
}

void RowMap::keep_mirrors(Device device) const {
  cuda::keep_mirrors(this, {std::as_bytes(shape_.sizes()), std::as_bytes(shape_.offsets()), std::as_bytes(shape_.order())});
  if (!device.is_cuda() || !cuda::fake()) return;
  for (const std::span<const int64_t> array : {shape_.offsets(), shape_.order()}) {
    if (!array.empty()) cuda::mirror_of(array.data(), device);
  }
}

std::span<const int64_t> RowMap::components() const {
  std::call_once(components_made_, [&] {
    components_.resize(static_cast<size_t>(shape_.rows()));
    for (int64_t b = 0; b < shape_.components(); ++b) {
      for (int64_t i = shape_.offset(b); i < shape_.offset(b + 1); ++i) {
        const int64_t row = shape_.order().empty() ? i : shape_.order()[static_cast<size_t>(i)];
        components_[static_cast<size_t>(row)] = b;
      }
    }
  });
  return components_;
}

int64_t RowMap::position(int64_t row, int ragged_dim) const {
  const int64_t b = components()[static_cast<size_t>(row)];
  int64_t inner = 1;
  for (int dim = ragged_dim + 1; dim < shape_.ragged_dims(); ++dim) inner *= shape_.size(b, dim);
  return (row - shape_.offset(b)) / inner % shape_.size(b, ragged_dim);
}

void RowMap::affine(std::span<const int64_t> first, std::span<const int64_t> strides, int64_t* out) const {
  constexpr int64_t kGrain = 16384;  // rows per parallel range
  const std::span<const int64_t> offsets = shape_.offsets();
  const int last = shape_.ragged_dims() - 1;
  parallel_for(shape_.rows(), kGrain, [&](int64_t begin, int64_t end) {
    int64_t b = std::upper_bound(offsets.begin(), offsets.end(), begin) - offsets.begin() - 1;
    for (int64_t row = begin; row < end;) {  // by runs along the last ragged dim
      while (shape_.offset(b + 1) <= row) ++b;
      const int64_t* const stride = strides.data() + b * (last + 1);
      const int64_t length = shape_.size(b, last), from = (row - shape_.offset(b)) % length;
      int64_t outer = (row - shape_.offset(b)) / length, index = first[static_cast<size_t>(b)] + from * stride[last];
      for (int dim = last - 1; dim >= 0; --dim) {
        index += outer % shape_.size(b, dim) * stride[dim];
        outer /= shape_.size(b, dim);
      }
      const int64_t run_end = std::min(end, row + length - from);
      for (; row < run_end; ++row, index += stride[last]) out[row] = index;
    }
  });
}

std::vector<int64_t> RowMap::affine(std::span<const int64_t> first, std::span<const int64_t> strides) const {
  std::vector<int64_t> result(static_cast<size_t>(shape_.rows()));
  affine(first, strides, result.data());
  return result;
}

std::shared_ptr<const RaggedShape> RowMap::groups(uint64_t dims) const {
  return kept_shape(shape_, "groups", {static_cast<int64_t>(dims)}, [&] { return Ragged(make_groups(dims)); }).shared();
}

std::shared_ptr<const RaggedShape> RowMap::make_groups(uint64_t dims) const {
  const bool over_batch = (dims & 1) != 0;
  const int ragged_dims = shape_.ragged_dims();
  std::vector<int64_t> largest;
  for (int dim = 0; dim < ragged_dims; ++dim) largest.push_back(shape_.max_size(dim));
  std::vector<int64_t> first(static_cast<size_t>(shape_.components()), 0);
  std::vector<int64_t> strides(shape_.sizes().size(), 0);
  const auto number = [&](int64_t* stride, auto size) {  // row-major strides of the dims that stay; their number of positions
    int64_t count = 1;
    for (int dim = ragged_dims - 1; dim >= 0; --dim) {
      if ((dims >> (dim + 1) & 1) != 0) continue;
      stride[dim] = count;
      check(!__builtin_mul_overflow(count, size(dim), &count), "the positions are more than 2^63 (expected sizes to group by)");
    }
    return count;
  };
  int64_t count = 0;
  for (int64_t b = 0; b < shape_.components(); ++b) {
    int64_t* const stride = strides.data() + b * ragged_dims;
    if (over_batch) {
      number(stride, [&](int dim) { return largest[static_cast<size_t>(dim)]; });
    } else {
      first[static_cast<size_t>(b)] = count;
      check(!__builtin_add_overflow(count, number(stride, [&](int dim) { return shape_.size(b, dim); }), &count),
            "the positions are more than 2^63 (expected sizes to group by)");
    }
  }
  if (over_batch) {
    std::vector<int64_t> unused(static_cast<size_t>(ragged_dims));
    count = number(unused.data(), [&](int dim) { return largest[static_cast<size_t>(dim)]; });
  }

  const std::vector<int64_t> group = affine(first, strides);
  std::vector<int64_t> lengths;
  try {
    lengths.resize(static_cast<size_t>(count), 0);
  } catch (const std::exception&) {  // bad_alloc or length_error
    fail(ErrorKind::out_of_memory, "no memory for the lengths of {} groups of rows", count);
  }
  for (const int64_t each : group) ++lengths[static_cast<size_t>(each)];
  if (std::is_sorted(group.begin(), group.end())) return std::make_shared<const RaggedShape>(std::move(lengths));
  std::vector<int64_t> next(lengths.size(), 0), order(group.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), next.begin(), int64_t{0});
  for (size_t row = 0; row < group.size(); ++row)
    order[static_cast<size_t>(next[static_cast<size_t>(group[row])]++)] = static_cast<int64_t>(row);
  return std::make_shared<const RaggedShape>(std::move(lengths), 1, std::move(order));
}

}  // namespace deckle
