// Convolution and pooling along the ragged dim.

#include "deckle/ops/windows.h"

#include <limits>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/nested/generated/conv.h"
#include "deckle/nested/pooling.h"
#include "deckle/nested/named.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/segment.h"

namespace deckle {
namespace {

void require_sequences(const NestedTensor& x) {
  check(x.ragged_dims() == 1 && x.values().dim() == 2, "shape {} (expected [B, L, channels] with L ragged)", nested::ShapeOf{x});
}

NestedTensor pool1d(const NestedTensor& x, int64_t kernel_size, std::optional<int64_t> stride, std::string_view padding, std::string_view kind) {
  require_sequences(x);
  const Windows windows{.size = kernel_size, .stride = stride.value_or(kernel_size), .padding = padding};
  const Ragged counts = windowed(x.ragged(), windows);
  return {segment_pool1d(x.values(), x.ragged(), kernel_size, windows.stride, padding, kind), counts};
}

/// The first or last row of each component; -1 for an empty one.
Tensor end_rows(const NestedTensor& x, bool last) {
  check(x.ragged_dims() == 1, "shape {} has {} ragged dims (expected one, whose first or last row is taken)", nested::ShapeOf{x}, x.ragged_dims());
  std::vector<int64_t> rows;
  const auto offsets = x.ragged()->offsets();
  for (size_t b = 0; b + 1 < offsets.size(); ++b) rows.push_back(offsets[b] == offsets[b + 1] ? -1 : last ? offsets[b + 1] - 1 : offsets[b]);
  return nested::index_tensor(rows);
}

}  // namespace

namespace nested {

NestedTensor conv1d(const NestedTensor& input, const Tensor& weight, const Tensor& bias, int64_t stride, std::string_view padding, int64_t dilation, int64_t groups) {
  require_sequences(input);
  check(weight.dim() == 3, "weight has shape {} (expected [out, in / groups, kernel])", to_string(weight.sizes()));
  const Ragged counts = windowed(input.ragged(), {.size = weight.size(2), .stride = stride, .dilation = dilation, .padding = padding});
  return {segment_conv1d(input.values(), input.ragged(), weight, bias, stride, padding, dilation, groups), counts};
}

NestedTensor avg_pool1d(const NestedTensor& input, int64_t kernel_size, std::optional<int64_t> stride, std::string_view padding) {
  return pool1d(input, kernel_size, stride, padding, "mean");
}

NestedTensor max_pool1d(const NestedTensor& input, int64_t kernel_size, std::optional<int64_t> stride, std::string_view padding) {
  return pool1d(input, kernel_size, stride, padding, "max");
}

}  // namespace nested

NestedTensor pool(const NestedTensor& x, Pooling pooling) {
  return nested::named("pool", {{"x", &x}}, [&]() -> NestedTensor {
    check(x.ragged_dims() > 0, "shape {} has no ragged dim to pool over", nested::ShapeOf{x});
    switch (pooling) {
      case Pooling::average:
        return {masked_fill(segment_mean(x.values(), x.ragged()), eq(segment_lengths(x.values(), x.ragged()), 0), 0), Ragged()};
      case Pooling::max:
        return {segment_take(x.values(), std::get<1>(segment_max(x.values(), x.ragged()))), Ragged()};
      case Pooling::first:
      case Pooling::last:
        return {index_select_or(x.values(), end_rows(x, pooling == Pooling::last)), Ragged()};
    }
    fail("unknown pooling");
  });
}

}  // namespace deckle
