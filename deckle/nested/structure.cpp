// Parts of nested tensors: select, slice, narrow, split, chunk, unbind, roll, shift.

#include "deckle/nested/structure.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/core/rethrow.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/kept_rows.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/shape_tools.h"

namespace deckle {
namespace {

using nested::kept_rows;
using nested::Rows;
using nested::rows_at;
using nested::take;

int ragged_dim(int64_t dim) { return static_cast<int>(dim) - 1; }

/// One number per component for a ragged dim; throws for other dims and sizes.
std::vector<int64_t> per_component(const NestedTensor& x, int64_t dim, const Tensor& numbers, const char* what) {
  check(x.is_ragged(dim), "dim {} of shape {} is not ragged (expected one number for all components)", dim, nested::ShapeOf{x});
  std::vector<int64_t> result = nested::to_indices(numbers, what);
  check(static_cast<int64_t>(result.size()) == x.components(), "{} has {} elements for {} components (expected as many)", what,
        result.size(), x.components());
  return result;
}

void append_range(std::vector<int64_t>& positions, int64_t start, int64_t end, int64_t step = 1) {
  if (start >= end) return;
  const int64_t count = (end - start - 1) / step + 1;  // not while (start < end): start + step may overflow
  for (int64_t i = 0; i < count; ++i) positions.push_back(start + i * step);
}

// The rows of a part of each component. Where one number serves all components they are kept (kept_rows).

Rows select_rows(const NestedTensor& self, int64_t dim, const std::function<int64_t(int64_t)>& index) {
  const auto position = [&](int64_t b) {
    const int64_t length = self.ragged()->size(b, ragged_dim(dim)), at = index(b);
    check(at >= -length && at < length, "position {} is out of range for dim {} of component {}, of length {} (expected {})", at,
          dim, b, length, Range{-length, length - 1});
    return at < 0 ? at + length : at;
  };
  if (self.ragged_dims() == 1) {  // one row of each component: dense
    std::vector<int64_t> rows(self.ragged()->offsets().begin(), self.ragged()->offsets().end() - 1);
    for (int64_t b = 0; b < self.components(); ++b) rows[static_cast<size_t>(b)] += position(b);
    return {nested::index_tensor(rows), Ragged()};
  }
  const Rows rows = rows_at(self.ragged(), ragged_dim(dim),
                            [&](int64_t b, std::vector<int64_t>& positions) { positions.push_back(position(b)); });
  return {rows.index, nested::without_ragged_dim(rows.shape, ragged_dim(dim))};
}

Rows narrow_rows(const NestedTensor& self, int64_t dim, const std::function<std::pair<int64_t, int64_t>(int64_t)>& range) {
  return rows_at(self.ragged(), ragged_dim(dim), [&](int64_t b, std::vector<int64_t>& positions) {
    const int64_t length = self.ragged()->size(b, ragged_dim(dim));
    auto [start, count] = range(b);
    const int64_t first = start < 0 ? start + length : start;
    check(first >= 0 && first <= length && count >= 0 && count <= length - first,
          "{} positions from {} on are more than dim {} of component {} has, of length {} (expected no more)", count, start, dim,
          b, length);
    append_range(positions, first, first + count);
  });
}

Rows slice_rows(const NestedTensor& self, int64_t dim, int64_t step,
                const std::function<std::pair<int64_t, int64_t>(int64_t)>& bounds) {
  check(step >= 1, Argument{"step"}, "is {} (expected 1 or more)", step);
  return rows_at(self.ragged(), ragged_dim(dim), [&](int64_t b, std::vector<int64_t>& positions) {
    const auto [start, end] = bounds(b);
    const SliceBounds range = slice_bounds(self.ragged()->size(b, ragged_dim(dim)), start, end, step);
    append_range(positions, range.start, range.end, step);
  });
}

/// Components [first, last): a view of the values.
NestedTensor component_range(const NestedTensor& self, int64_t first, int64_t last) {
  if (!self.ragged().defined()) return {slice(self.values(), 0, first, last), Ragged()};
  const RaggedShape& shape = *self.ragged();
  const auto sizes = shape.sizes().subspan(static_cast<size_t>(first * shape.ragged_dims()),
                                           static_cast<size_t>((last - first) * shape.ragged_dims()));
  const auto offsets = shape.offsets();
  const Ragged part = kept_shape(*self.ragged(), "component range", {first, last}, [&] {
    return Ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>(sizes.begin(), sizes.end()), shape.ragged_dims()));
  });
  return {slice(self.values(), 0, offsets[static_cast<size_t>(first)], offsets[static_cast<size_t>(last)]), part};
}

NestedTensor chosen_components(const NestedTensor& self, const std::vector<int64_t>& components) {
  if (!self.ragged().defined()) return {index_select(self.values(), 0, nested::index_tensor(components)), Ragged()};
  return take(self, nested::rows_of_components(self.ragged(), components));
}

/// Components from `first` to `last` by `step`, then those from 0 to `wrapped`.
NestedTensor range_of_components(const NestedTensor& self, int64_t first, int64_t last, int64_t step, int64_t wrapped = 0) {
  const auto components = [&] {
    std::vector<int64_t> result;
    append_range(result, first, last, step);
    append_range(result, 0, wrapped);
    return result;
  };
  if (!self.ragged().defined()) return chosen_components(self, components());
  return take(self, kept_rows(*self.ragged(), "components", {first, last, step, wrapped},
                              [&] { return nested::rows_of_components(self.ragged(), components()); }));
}

std::vector<NestedTensor> wrap(const std::vector<Tensor>& pieces, const NestedTensor& self) {
  std::vector<NestedTensor> result;
  for (const Tensor& values : pieces) result.push_back(NestedTensor::of_op(values, self));
  return result;
}

/// Where the pieces start, and where the last one ends.
std::vector<int64_t> starts_of(IntSpan sizes) {
  std::vector<int64_t> starts = {0};
  for (const int64_t size : sizes) {
    check(size >= 0, "split size {} is negative in {} (expected 0 or more)", size, sizes);
    check(size <= std::numeric_limits<int64_t>::max() - starts.back(), "split sizes {} add up to more than 2^63 (expected less)",
          sizes);
    starts.push_back(starts.back() + size);
  }
  return starts;
}

std::vector<NestedTensor> split_components(const NestedTensor& self, IntSpan sizes) {
  const std::vector<int64_t> starts = starts_of(sizes);
  check(starts.back() == self.components(), "split sizes {} add up to {}, but shape {} has {} components (expected their number)",
        sizes, starts.back(), nested::ShapeOf{self}, self.components());
  std::vector<NestedTensor> result;
  for (size_t i = 0; i + 1 < starts.size(); ++i) result.push_back(component_range(self, starts[i], starts[i + 1]));
  return result;
}

/// Piece i of component b holds positions [start(b, i), start(b, i + 1)), which follow from key(i) and the length.
std::vector<NestedTensor> split_positions(const NestedTensor& self, int64_t dim, int64_t pieces, std::string_view what,
                                          const std::function<std::pair<int64_t, int64_t>(int64_t)>& key,
                                          const std::function<int64_t(int64_t, int64_t)>& start) {
  std::vector<NestedTensor> result;
  result.reserve(static_cast<size_t>(pieces));  // too many end here, before any is made
  for (int64_t i = 0; i < pieces; ++i) {
    const auto [one, other] = key(i);
    result.push_back(take(self, kept_rows(*self.ragged(), what, {dim, one, other}, [&] {
                            return rows_at(self.ragged(), ragged_dim(dim), [&](int64_t b, std::vector<int64_t>& positions) {
                              append_range(positions, start(b, i), start(b, i + 1));
                            });
                          })));
  }
  return result;
}

int64_t divided_up(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

Rows roll_rows(const NestedTensor& self, int64_t dim, const std::function<int64_t(int64_t)>& shift) {
  return rows_at(self.ragged(), ragged_dim(dim), [&](int64_t b, std::vector<int64_t>& positions) {
    const int64_t length = self.ragged()->size(b, ragged_dim(dim));
    const int64_t by = length == 0 ? 0 : (shift(b) % length + length) % length;
    append_range(positions, length - by, length);
    append_range(positions, 0, length - by);
  });
}

Rows shift_rows(const NestedTensor& self, int64_t dim, const std::function<int64_t(int64_t)>& offset) {
  return rows_at(self.ragged(), ragged_dim(dim), [&](int64_t b, std::vector<int64_t>& positions) {
    const int64_t length = self.ragged()->size(b, ragged_dim(dim)), by = std::clamp(offset(b), -length, length);
    for (int64_t i = 0; i < length; ++i) positions.push_back(i - by >= 0 && i - by < length ? i - by : -1);
  });
}

}  // namespace

namespace nested {

NestedTensor select(const NestedTensor& self, int64_t dim, int64_t index) {
  dim = nested::wrap_dim(dim, self);
  if (dim == 0) return {self[index], Ragged()};
  if (!self.is_ragged(dim)) return NestedTensor::of_op(select(self.values(), nested::values_dim(dim, self), index), self);
  return take(self, kept_rows(*self.ragged(), "select", {dim, index},
                              [&] { return select_rows(self, dim, [&](int64_t) { return index; }); }));
}

NestedTensor slice(const NestedTensor& self, int64_t dim, int64_t start, int64_t end, int64_t step) {
  dim = nested::wrap_dim(dim, self);
  if (dim == 0) {
    const SliceBounds range = slice_bounds(self.components(), start, end, step);
    if (step == 1) return component_range(self, range.start, range.end);
    return range_of_components(self, range.start, range.end, step);
  }
  if (!self.is_ragged(dim))
    return NestedTensor::of_op(slice(self.values(), nested::values_dim(dim, self), start, end, step), self);
  return take(self, kept_rows(*self.ragged(), "slice", {dim, start, end, step},
                              [&] { return slice_rows(self, dim, step, [&](int64_t) { return std::pair(start, end); }); }));
}

NestedTensor narrow(const NestedTensor& self, int64_t dim, int64_t start, int64_t length) {
  dim = nested::wrap_dim(dim, self);
  if (dim == 0) {
    const int64_t first = start < 0 ? start + self.components() : start;
    check(first >= 0 && first <= self.components() && length >= 0 && length <= self.components() - first,
          "{} components from {} on are more than shape {} has (expected no more)", length, start, nested::ShapeOf{self});
    return component_range(self, first, first + length);
  }
  if (!self.is_ragged(dim)) return NestedTensor::of_op(narrow(self.values(), nested::values_dim(dim, self), start, length), self);
  return take(self, kept_rows(*self.ragged(), "narrow", {dim, start, length},
                              [&] { return narrow_rows(self, dim, [&](int64_t) { return std::pair(start, length); }); }));
}

std::vector<NestedTensor> split_with_sizes(const NestedTensor& self, IntSpan split_sizes, int64_t dim) {
  dim = nested::wrap_dim(dim, self);
  if (dim == 0) return split_components(self, split_sizes);
  if (!self.is_ragged(dim)) return wrap(split_with_sizes(self.values(), split_sizes, nested::values_dim(dim, self)), self);
  const std::vector<int64_t> starts = starts_of(split_sizes);
  for (int64_t b = 0; b < self.components(); ++b) {
    const int64_t length = self.ragged()->size(b, ragged_dim(dim));
    check(length == starts.back(), "split sizes {} add up to {}, but component {} has length {} in dim {} (expected that length)",
          split_sizes, starts.back(), b, length, dim);
  }
  const auto start = [&](int64_t i) { return starts[static_cast<size_t>(i)]; };
  return split_positions(
      self, dim, static_cast<int64_t>(split_sizes.size()), "range", [&](int64_t i) { return std::pair(start(i), start(i + 1)); },
      [&](int64_t, int64_t i) { return start(i); });
}

std::vector<NestedTensor> split(const NestedTensor& self, int64_t split_size, int64_t dim) {
  dim = nested::wrap_dim(dim, self);
  check(split_size > 0, Argument{"split_size"}, "is {} (expected 1 or more)", split_size);
  if (dim == 0) {
    std::vector<int64_t> sizes;
    for (int64_t first = 0; first < self.components(); first += split_size)
      sizes.push_back(std::min(split_size, self.components() - first));
    return split_components(self, sizes);
  }
  if (!self.is_ragged(dim)) return wrap(split(self.values(), split_size, nested::values_dim(dim, self)), self);
  const int64_t pieces = std::max<int64_t>(1, divided_up(self.ragged()->max_size(ragged_dim(dim)), split_size));
  return split_positions(
      self, dim, pieces, "piece", [&](int64_t i) { return std::pair(split_size, i); },
      [&](int64_t b, int64_t i) { return std::min(i * split_size, self.ragged()->size(b, ragged_dim(dim))); });
}

std::vector<NestedTensor> chunk(const NestedTensor& self, int64_t chunks, int64_t dim) {
  dim = nested::wrap_dim(dim, self);
  check(chunks > 0, Argument{"chunks"}, "is {} (expected 1 or more)", chunks);
  if (dim == 0) return nested::split(self, std::max<int64_t>(1, divided_up(self.components(), chunks)), 0);
  if (!self.is_ragged(dim)) return wrap(chunk(self.values(), chunks, nested::values_dim(dim, self)), self);
  return split_positions(
      self, dim, chunks, "chunk", [&](int64_t i) { return std::pair(chunks, i); },
      [&](int64_t b, int64_t i) {
        const int64_t length = self.ragged()->size(b, ragged_dim(dim));
        return std::min(i * divided_up(length, chunks), length);
      });
}

std::vector<NestedTensor> unbind(const NestedTensor& self, int64_t dim) {
  dim = nested::wrap_dim(dim, self);
  if (dim != 0) return wrap(unbind(self.values(), nested::values_dim(dim, self)), self);
  std::vector<NestedTensor> result;
  result.reserve(static_cast<size_t>(self.components()));
  for (Tensor& component : self.unbind()) result.emplace_back(std::move(component), Ragged());
  return result;
}

NestedTensor roll(const NestedTensor& self, int64_t shift, int64_t dim) {
  dim = nested::wrap_dim(dim, self);
  if (dim == 0) {
    const int64_t count = self.components(), by = count == 0 ? 0 : (shift % count + count) % count;
    return range_of_components(self, count - by, count, 1, count - by);
  }
  if (!self.is_ragged(dim)) return NestedTensor::of_op(roll(self.values(), shift, nested::values_dim(dim, self)), self);
  const Tensor index = kept_value(*self.ragged(), "roll", {dim, shift},
                                  [&] { return roll_rows(self, dim, [&](int64_t) { return shift; }).index; });
  return NestedTensor::of_op(index_select_or(self.values(), index), self.ragged());
}

NestedTensor index_select(const NestedTensor& self, int64_t dim, const Tensor& index) {
  dim = nested::wrap_dim(dim, self);
  if (dim == 0) return chosen_components(self, nested::to_indices(index, "index"));
  if (!self.is_ragged(dim))
    return NestedTensor::of_op(index_select(self.values(), nested::values_dim(dim, self), index), self.ragged());
  return take(self, nested::rows_at_all(self.ragged(), ragged_dim(dim), nested::to_indices(index, "index")));
}

}  // namespace nested

NestedTensor select(const NestedTensor& self, IntArg dim, const Tensor& index) {
  return call_as("select", {{"self", self}}, [&]() -> NestedTensor {
    const nested::OnDeviceOf there(self);
    dim = nested::wrap_dim(dim, self);
    const std::vector<int64_t> wanted = per_component(self, dim, index, "index");
    return take(self, select_rows(self, dim, [&](int64_t b) { return wanted[static_cast<size_t>(b)]; }));
  });
}

NestedTensor slice(const NestedTensor& self, IntArg dim, const Tensor& starts, const Tensor& ends, IntArg step) {
  return call_as("slice", {{"self", self}}, [&]() -> NestedTensor {
    const nested::OnDeviceOf there(self);
    dim = nested::wrap_dim(dim, self);
    const std::vector<int64_t> first = per_component(self, dim, starts, "starts"), last = per_component(self, dim, ends, "ends");
    return take(self, slice_rows(self, dim, step, [&](int64_t b) {
                  return std::pair(first[static_cast<size_t>(b)], last[static_cast<size_t>(b)]);
                }));
  });
}

NestedTensor narrow(const NestedTensor& self, IntArg dim, const Tensor& starts, const Tensor& lengths) {
  return call_as("narrow", {{"self", self}}, [&]() -> NestedTensor {
    const nested::OnDeviceOf there(self);
    dim = nested::wrap_dim(dim, self);
    const std::vector<int64_t> first = per_component(self, dim, starts, "starts"),
                               count = per_component(self, dim, lengths, "lengths");
    return take(self, narrow_rows(self, dim, [&](int64_t b) {
                  return std::pair(first[static_cast<size_t>(b)], count[static_cast<size_t>(b)]);
                }));
  });
}

NestedTensor roll(const NestedTensor& self, const Tensor& shifts, IntArg dim) {
  return call_as("roll", {{"self", self}}, [&]() -> NestedTensor {
    const nested::OnDeviceOf there(self);
    dim = nested::wrap_dim(dim, self);
    const std::vector<int64_t> by = per_component(self, dim, shifts, "shifts");
    return take(self, roll_rows(self, dim, [&](int64_t b) { return by[static_cast<size_t>(b)]; }));
  });
}

NestedTensor shift(const NestedTensor& self, IntArg offset, IntArg dim, const Scalar& value) {
  return call_as("shift", {{"self", self}}, [&]() -> NestedTensor {
    const nested::OnDeviceOf there(self);
    dim = nested::wrap_dim(dim, self);
    check(self.is_ragged(dim), "dim {} of shape {} is not ragged (expected a ragged dim; of others pad and narrow the values)",
          dim, nested::ShapeOf{self});
    const Tensor index = kept_value(*self.ragged(), "shift", {dim, offset},
                                    [&] { return shift_rows(self, dim, [&](int64_t) { return offset; }).index; });
    return NestedTensor::of_op(index_select_or(self.values(), index, value), self.ragged());
  });
}

NestedTensor shift(const NestedTensor& self, const Tensor& offsets, IntArg dim, const Scalar& value) {
  return call_as("shift", {{"self", self}}, [&]() -> NestedTensor {
    const nested::OnDeviceOf there(self);
    dim = nested::wrap_dim(dim, self);
    const std::vector<int64_t> by = per_component(self, dim, offsets, "offsets");
    const Rows rows = shift_rows(self, dim, [&](int64_t b) { return by[static_cast<size_t>(b)]; });
    return {index_select_or(self.values(), rows.index, value), rows.shape};
  });
}

}  // namespace deckle
