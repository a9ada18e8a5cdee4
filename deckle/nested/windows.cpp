// Convolution, pooling and interpolation along the last ragged dim.

#include "deckle/ops/windows.h"

#include <bit>
#include <functional>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/kept.h"
#include "deckle/core/rethrow.h"
#include "deckle/nested/generated/conv.h"
#include "deckle/nested/pooling.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"

namespace deckle {
namespace {

/// Whether windows slide along a regular dim, [.., L, channels]: then the op is one on the values.
bool regular_sequences(const NestedTensor& x) { return x.values().dim() > 2 || x.ragged_dims() == 0; }

/// The sequences along the last ragged dim: one for each index of the ragged dims before it.
Ragged sequences(const Ragged& ragged) {
  const RaggedShape& shape = *ragged;
  const int last = shape.ragged_dims() - 1;
  if (last == 0) return ragged;
  return kept_shape(*ragged, "sequences", {}, [&] {
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < shape.components(); ++b) {
      int64_t count = 1;
      for (int dim = 0; dim < last; ++dim) count *= shape.size(b, dim);
      lengths.insert(lengths.end(), static_cast<size_t>(count), shape.size(b, last));
    }
    return Ragged::from_lengths(lengths);
  });
}

/// The shape with count(lengths) along its last ragged dim.
Ragged with_lengths(const Ragged& ragged, std::string_view what, IntSpan numbers,
                    const std::function<Ragged(const Ragged&)>& count) {
  const RaggedShape& shape = *ragged;
  const int last = shape.ragged_dims() - 1;
  if (last == 0) return count(ragged);
  return kept_shape(*ragged, what, numbers, [&] {
    std::vector<int64_t> sizes(shape.sizes().begin(), shape.sizes().end()), lengths;
    for (int64_t b = 0; b < shape.components(); ++b) lengths.push_back(shape.size(b, last));
    const Ragged counts = count(Ragged::from_lengths(lengths));
    for (int64_t b = 0; b < shape.components(); ++b) sizes[static_cast<size_t>(b * shape.ragged_dims() + last)] = counts->size(b);
    return Ragged(std::make_shared<const RaggedShape>(std::move(sizes), shape.ragged_dims()));
  });
}

Ragged in_windows(const Ragged& ragged, int64_t size, int64_t stride, int64_t dilation, Padding padding) {
  const bool within = padding == Padding::valid;
  return with_lengths(ragged, "windows", {size, stride, dilation, static_cast<int64_t>(within)},
                      [&](const Ragged& of) { return shapes::count_windows(of, size, stride, dilation, within); });
}

NestedTensor pool1d(const NestedTensor& x, int64_t kernel_size, std::optional<int64_t> stride, Padding padding, bool maximum) {
  const int64_t step = stride.value_or(kernel_size);
  const Ragged counts = in_windows(x.ragged(), kernel_size, step, 1, padding);
  return {segment_pool1d(x.values(), sequences(x.ragged()), kernel_size, step, padding, maximum), counts};
}

/// The first or last row of each component; -1 for an empty one.
Tensor end_rows(const NestedTensor& x, bool last) {
  check(x.ragged_dims() == 1, "shape {} has {} ragged dims (expected one, whose first or last row is taken)", nested::ShapeOf{x},
        x.ragged_dims());
  return kept_value(*x.ragged(), last ? "last rows" : "first rows", {}, [&] {
    std::vector<int64_t> rows;
    const auto offsets = x.ragged()->offsets();
    for (size_t b = 0; b + 1 < offsets.size(); ++b)
      rows.push_back(offsets[b] == offsets[b + 1] ? -1 : last ? offsets[b + 1] - 1 : offsets[b]);
    return nested::index_tensor(rows);
  });
}

}  // namespace

namespace nested {

NestedTensor conv1d(const NestedTensor& input, const Tensor& weight, const Tensor& bias, int64_t stride, Padding padding,
                    int64_t dilation, int64_t groups) {
  if (regular_sequences(input))
    return NestedTensor::of_op(
        conv1d(input.values(), weight, bias, {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}),
        input.ragged());
  check(weight.dim() == 3, Argument{"weight"}, "has shape {} (expected [out, in / groups, kernel])", weight.sizes());
  const Ragged counts = in_windows(input.ragged(), weight.size(2), stride, dilation, padding);
  return {segment_conv1d(input.values(), sequences(input.ragged()), weight, bias, stride, padding, dilation, groups), counts};
}

NestedTensor avg_pool1d(const NestedTensor& input, int64_t kernel_size, std::optional<int64_t> stride, Padding padding) {
  if (regular_sequences(input))
    return NestedTensor::of_op(avg_pool1d(input.values(), kernel_size, {.stride = stride, .padding = padding}), input.ragged());
  return pool1d(input, kernel_size, stride, padding, false);
}

NestedTensor max_pool1d(const NestedTensor& input, int64_t kernel_size, std::optional<int64_t> stride, Padding padding) {
  if (regular_sequences(input))
    return NestedTensor::of_op(max_pool1d(input.values(), kernel_size, {.stride = stride, .padding = padding}), input.ragged());
  return pool1d(input, kernel_size, stride, padding, true);
}

NestedTensor interpolate1d(const NestedTensor& input, double scale, Interpolation mode) {
  if (regular_sequences(input)) return NestedTensor::of_op(interpolate1d(input.values(), scale, mode), input.ragged());
  const Ragged counts = with_lengths(input.ragged(), "scaled", {std::bit_cast<int64_t>(scale)},
                                     [&](const Ragged& of) { return shapes::scale_lengths(of, scale); });
  return {segment_interpolate1d(input.values(), sequences(input.ragged()), scale, mode), counts};
}

}  // namespace nested

NestedTensor pool(const NestedTensor& x, Pooling pooling) {
  return call_as("pool", {{"x", x}}, [&]() -> NestedTensor {
    const nested::OnDeviceOf there(x);
    check(x.ragged_dims() > 0, "shape {} has no ragged dim to pool over (expected one)", nested::ShapeOf{x});
    switch (pooling) {
      case Pooling::average:
        return {masked_fill(segment_mean(x.values(), x.ragged()), eq(segment_lengths(x.values(), x.ragged()), 0), 0), Ragged()};
      case Pooling::max:
        return {segment_take(x.values(), std::get<1>(segment_max(x.values(), x.ragged()))), Ragged()};
      case Pooling::first:
      case Pooling::last:
        return {index_select_or(x.values(), end_rows(x, pooling == Pooling::last)), Ragged()};
    }
    fail(Argument{"pooling"}, "is {} (expected average, max, first or last)", static_cast<int>(pooling));
  });
}

}  // namespace deckle
