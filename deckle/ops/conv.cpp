// Convolution, pooling and interpolation along sequences: dense ones are packed ones of equal lengths.

#include <functional>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/windows.h"

namespace deckle {
namespace {

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

Tensor pool1d(const Tensor& input, int64_t kernel_size, std::optional<int64_t> stride, Padding padding, bool maximum) {
  const Ragged ragged = equal_lengths(input);
  const Windows windows{.size = kernel_size, .stride = stride.value_or(kernel_size), .padding = padding};
  return unpacked(segment_pool1d(packed(input, ragged), ragged, kernel_size, windows.stride, padding, maximum), input, ragged,
                  [&](const Ragged& of) { return windowed(of, windows); });
}

}  // namespace

Tensor composite::segment_conv1d(const Tensor& values, const Ragged& ragged, const Tensor& weight, const Tensor& bias,
                                 int64_t stride, Padding padding, int64_t dilation, int64_t groups) {
  check(values.dim() == 2, "rows of shape {} (expected [rows, channels])", to_string(values.sizes()));
  check(weight.dim() == 3 && groups >= 1 && weight.size(1) * groups == values.size(1) && weight.size(0) % groups == 0,
        "weight {} for {} channels in {} groups (expected [out, {} / groups, kernel], groups dividing both)",
        to_string(weight.sizes()), values.size(1), groups, values.size(1));
  check(!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)), "bias {} (expected [{}])",
        bias.defined() ? to_string(bias.sizes()) : "", weight.size(0));
  const Windows windows{.size = weight.size(2), .stride = stride, .dilation = dilation, .padding = padding};
  return segment_convolution(values, ragged, windowed(ragged, windows), weight, bias, stride, dilation, lead(windows), groups);
}

Tensor composite::segment_pool1d(const Tensor& values, const Ragged& ragged, int64_t kernel_size, int64_t stride, Padding padding,
                                 bool maximum) {
  const Windows windows{.size = kernel_size, .stride = stride, .padding = padding};
  const Ragged counts = windowed(ragged, windows);
  if (!maximum) return segment_avg_pool1d(values, ragged, counts, kernel_size, stride, lead(windows));
  return std::get<0>(segment_max_pool1d(values, ragged, counts, kernel_size, stride, lead(windows)));
}

Tensor composite::segment_interpolate1d(const Tensor& values, const Ragged& ragged, double scale, Interpolation mode) {
  check(values.dim() == 2, "rows of shape {} (expected [rows, channels])", to_string(values.sizes()));
  return segment_resample(values, ragged, scaled(ragged, scale), scale, mode == Interpolation::nearest);
}

Tensor composite::conv1d(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t stride, Padding padding,
                         int64_t dilation, int64_t groups) {
  const Ragged ragged = equal_lengths(input);
  const Tensor values = deckle::segment_conv1d(packed(input, ragged), ragged, weight, bias, stride, padding, dilation, groups);
  const Windows windows{.size = weight.size(2), .stride = stride, .dilation = dilation, .padding = padding};
  return unpacked(values, input, ragged, [&](const Ragged& of) { return windowed(of, windows); });
}

Tensor composite::avg_pool1d(const Tensor& input, int64_t kernel_size, std::optional<int64_t> stride, Padding padding) {
  return pool1d(input, kernel_size, stride, padding, false);
}

Tensor composite::max_pool1d(const Tensor& input, int64_t kernel_size, std::optional<int64_t> stride, Padding padding) {
  return pool1d(input, kernel_size, stride, padding, true);
}

Tensor composite::interpolate1d(const Tensor& input, double scale, Interpolation mode) {
  const Ragged ragged = equal_lengths(input);
  return unpacked(deckle::segment_interpolate1d(packed(input, ragged), ragged, scale, mode), input, ragged,
                  [&](const Ragged& of) { return scaled(of, scale); });
}

}  // namespace deckle
