// Convolution, pooling and interpolation along sequences: the rows of all windows side by side, then a matrix product or a
// reduction.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/windows.h"

namespace deckle {
namespace {

/// values [rows, ...] as [windows, size, ...].
Tensor unfolded(const Tensor& values, const Ragged& ragged, const Windows& windows, double fill) {
  Dims sizes = {windowed(ragged, windows)->rows(), windows.size};
  for (const int64_t size : values.sizes().subspan(1)) sizes.push_back(size);
  return view(index_select_or(values, window_rows(ragged, windows), fill), sizes);
}

/// rows [windows, size, in], weight [out, 1, size]: every output channel sees one input channel of its own.
Tensor depthwise(const Tensor& rows, const Tensor& weight) { return sum(rows * t(squeeze(weight, 1)), Ints{1}); }

/// rows [windows, size, in], weight [out, in / groups, size] -> [windows, out]
Tensor grouped(const Tensor& rows, const Tensor& weight, int64_t groups) {
  const int64_t count = rows.size(0), size = rows.size(1), in = rows.size(2) / groups, out = weight.size(0) / groups;
  const Tensor inputs = reshape(permute(view(rows, {count, size, groups, in}), {2, 0, 1, 3}), {groups, count, size * in});
  const Tensor weights = reshape(permute(reshape(weight, {groups, out, in, size}), {0, 3, 2, 1}), {groups, size * in, out});
  return reshape(permute(bmm(inputs, weights), {1, 0, 2}), {count, groups * out});
}

/// The sequences of a dense [..., L, C].
Ragged equal_lengths(const Tensor& input) {
  check(input.dim() >= 2, "input has shape {} (expected [..., L, C])", to_string(input.sizes()));
  const int64_t count = numel_of(input.sizes().first(input.sizes().size() - 2));
  return Ragged::from_lengths(std::vector<int64_t>(static_cast<size_t>(count), input.size(-2)));
}

Tensor packed(const Tensor& input, const Ragged& ragged) { return reshape(input, {ragged->rows(), input.size(-1)}); }

/// Values of input's sequences, which `counted` tells the lengths of, in input's shape.
Tensor unpacked(const Tensor& values, const Tensor& input, const Ragged& ragged,
                const std::function<Ragged(const Ragged&)>& counted) {
  // A batch of none says nothing of them: one sequence of this length does.
  const Ragged one = ragged->components() > 0 ? ragged : Ragged::from_lengths(std::vector<int64_t>{input.size(-2)});
  Dims sizes(input.sizes().first(input.sizes().size() - 2));
  sizes.push_back(counted(one)->size(0));
  sizes.push_back(values.size(-1));
  return view(values, sizes);
}

Tensor pool1d(const Tensor& input, int64_t kernel_size, std::optional<int64_t> stride, std::string_view padding,
              std::string_view kind) {
  const Ragged ragged = equal_lengths(input);
  const Windows windows{.size = kernel_size, .stride = stride.value_or(kernel_size), .padding = padding};
  return unpacked(segment_pool1d(packed(input, ragged), ragged, kernel_size, windows.stride, padding, kind), input, ragged,
                  [&](const Ragged& of) { return windowed(of, windows); });
}

}  // namespace

Tensor segment_conv1d(const Tensor& values, const Ragged& ragged, const Tensor& weight, const Tensor& bias, int64_t stride,
                      std::string_view padding, int64_t dilation, int64_t groups) try {
  check(values.dim() == 2, "rows of shape {} (expected [rows, channels])", to_string(values.sizes()));
  check(weight.dim() == 3 && groups >= 1 && weight.size(1) * groups == values.size(1) && weight.size(0) % groups == 0,
        "weight {} for {} channels in {} groups (expected [out, {} / groups, kernel], groups dividing both)",
        to_string(weight.sizes()), values.size(1), groups, values.size(1));
  check(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), "bias {} (expected [{}])",
        bias.defined() ? to_string(bias.sizes()) : "", weight.size(0));
  const Windows windows{.size = weight.size(2), .stride = stride, .dilation = dilation, .padding = padding};
  const Tensor rows = unfolded(values, ragged, windows, 0.0);
  if (groups == 1) {
    const int64_t inputs = windows.size * values.size(1);
    return linear(view(rows, {rows.size(0), inputs}), reshape(permute(weight, {0, 2, 1}), {weight.size(0), inputs}), bias);
  }
  const Tensor result = weight.size(1) == 1 && weight.size(0) == groups ? depthwise(rows, weight) : grouped(rows, weight, groups);
  return bias.defined() ? result + bias : result;
} catch (...) {
  rethrow_from("segment_conv1d");
}

Tensor segment_pool1d(const Tensor& values, const Ragged& ragged, int64_t kernel_size, int64_t stride, std::string_view padding,
                      std::string_view kind) try {
  check(kind == "mean" || kind == "max", "kind is '{}' (expected mean or max)", kind);
  const Windows windows{.size = kernel_size, .stride = stride, .padding = padding};
  if (kind == "max") return amax(unfolded(values, ragged, windows, -std::numeric_limits<double>::infinity()), Ints{1});
  const Tensor totals = sum(unfolded(values, ragged, windows, 0.0), Ints{1});
  if (padding == "valid") return totals / static_cast<double>(kernel_size);
  Dims ones(values.sizes().size(), 1);
  ones[0] = values.size(0);
  const Tensor present = zeros_raw(ones, values.dtype(), values.device());
  present.fill_(1.0);
  return totals / sum(unfolded(present, ragged, windows, 0.0), Ints{1});
} catch (...) {
  rethrow_from("segment_pool1d");
}

Tensor segment_interpolate1d(const Tensor& values, const Ragged& ragged, double scale, std::string_view mode) try {
  check(mode == "linear" || mode == "nearest", "mode is '{}' (expected linear or nearest)", mode);
  check(values.dim() == 2, "rows of shape {} (expected [rows, channels])", to_string(values.sizes()));
  const Ragged counts = scaled(ragged, scale);
  const Tensor before = empty({counts->rows()}, DType::int64), after = empty({counts->rows()}, DType::int64),
               share = empty({counts->rows(), 1}, DType::float64);
  for (int64_t b = 0, row = 0; b < counts->components(); ++b) {
    const int64_t offset = ragged->offsets()[static_cast<size_t>(b)], last = ragged->size(b) - 1;
    for (int64_t i = 0; i < counts->size(b); ++i, ++row) {
      const double exact =
          mode == "nearest" ? std::floor(static_cast<double>(i) / scale) : (static_cast<double>(i) + 0.5) / scale - 0.5;
      const double place = std::clamp(exact, 0.0, static_cast<double>(last));
      const auto first = static_cast<int64_t>(place);
      before.data<int64_t>()[row] = offset + first;
      after.data<int64_t>()[row] = offset + std::min(first + 1, last);
      share.data<double>()[row] = place - static_cast<double>(first);
    }
  }
  const Tensor rows = index_select(values, 0, before);
  return mode == "nearest" ? rows : rows + (index_select(values, 0, after) - rows) * to(share, values.dtype());
} catch (...) {
  rethrow_from("segment_interpolate1d");
}

Tensor conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t stride, std::string_view padding,
              int64_t dilation, int64_t groups) try {
  const Ragged ragged = equal_lengths(input);
  const Tensor values = segment_conv1d(packed(input, ragged), ragged, weight, bias, stride, padding, dilation, groups);
  const Windows windows{.size = weight.size(2), .stride = stride, .dilation = dilation, .padding = padding};
  return unpacked(values, input, ragged, [&](const Ragged& of) { return windowed(of, windows); });
} catch (...) {
  rethrow_from("conv1d");
}

Tensor avg_pool1d(const Tensor& input, int64_t kernel_size, std::optional<int64_t> stride, std::string_view padding) try {
  return pool1d(input, kernel_size, stride, padding, "mean");
} catch (...) {
  rethrow_from("avg_pool1d");
}

Tensor max_pool1d(const Tensor& input, int64_t kernel_size, std::optional<int64_t> stride, std::string_view padding) try {
  return pool1d(input, kernel_size, stride, padding, "max");
} catch (...) {
  rethrow_from("max_pool1d");
}

Tensor interpolate1d(const Tensor& input, double scale, std::string_view mode) try {
  const Ragged ragged = equal_lengths(input);
  return unpacked(segment_interpolate1d(packed(input, ragged), ragged, scale, mode), input, ragged,
                  [&](const Ragged& of) { return scaled(of, scale); });
} catch (...) {
  rethrow_from("interpolate1d");
}

}  // namespace deckle
