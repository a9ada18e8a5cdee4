// Convolution and pooling of images whose height or width is ragged: one by one.

#include <vector>

#include "deckle/base/check.h"
#include "deckle/nested/generated/conv.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nested {
namespace {

/// `op` maps images [..., H, W, C] to images.
template <typename Op>
NestedTensor each_image(const NestedTensor& input, Op&& op) {
  check(input.dim() >= 4, "shape {} has no images (expected [B, ..., H, W, C])", nested::ShapeOf{input});
  nested::require_regular_dim(input);
  const int ragged_dims = input.ragged_dims();
  if (input.values().dim() >= 4 || ragged_dims == 0) return NestedTensor::of_op(op(input.values()), input);
  const auto leading = static_cast<size_t>(ragged_dims);
  std::vector<Tensor> rows;
  std::vector<int64_t> sizes;
  const auto add = [&](const Tensor& image) {
    const Tensor result = op(image);
    Dims flat = {1};
    for (const int64_t size : result.sizes().first(leading)) flat[0] *= size;
    for (const int64_t size : result.sizes().subspan(leading)) flat.push_back(size);
    rows.push_back(reshape(result, flat));
    return result;
  };
  for (int64_t b = 0; b < input.components(); ++b) {
    const Tensor result = add(input[b]);
    sizes.insert(sizes.end(), result.sizes().begin(), result.sizes().begin() + ragged_dims);
  }
  if (rows.empty()) {  // no image says how wide the others would be
    Dims none(leading, 0);
    for (const int64_t size : input.values().sizes().subspan(1)) none.push_back(size);
    add(zeros(none, input.dtype()));
  }
  return {cat(rows, 0), Ragged(std::make_shared<const RaggedShape>(std::move(sizes), ragged_dims))};
}

}  // namespace

NestedTensor conv2d(const NestedTensor& input, const Tensor& weight, const Tensor& bias, int64_t stride, Padding padding,
                    int64_t dilation, int64_t groups) {
  return each_image(input, [&](const Tensor& x) {
    return conv2d(x, weight, bias, {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
  });
}

NestedTensor avg_pool2d(const NestedTensor& input, int64_t kernel_size, std::optional<int64_t> stride, Padding padding) {
  return each_image(input, [&](const Tensor& x) { return avg_pool2d(x, kernel_size, {.stride = stride, .padding = padding}); });
}

NestedTensor max_pool2d(const NestedTensor& input, int64_t kernel_size, std::optional<int64_t> stride, Padding padding) {
  return each_image(input, [&](const Tensor& x) { return max_pool2d(x, kernel_size, {.stride = stride, .padding = padding}); });
}

}  // namespace deckle::nested
