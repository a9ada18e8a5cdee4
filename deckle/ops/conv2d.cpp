// conv2d as a sum of conv1d: row y of the weight slides along the rows of the images that it meets.

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/windows.h"

namespace deckle {

Tensor composite::conv2d(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t stride, Padding padding,
                         int64_t dilation, int64_t groups) {
  check(input.dim() >= 3, Argument{"input"}, "has shape {} (expected [..., H, W, C], channels last)", input.sizes());
  check(weight.dim() == 4 && weight.size(2) >= 1, Argument{"weight"},
        "has shape {} (expected [out, in / groups, height, width], a height of 1 or more)", weight.sizes());
  check(groups < 1 || weight.size(1) * groups == input.size(-1), Argument{"input"},
        "has shape {} for weight {} in {} groups (expected [..., H, W, C], channels last, of C = {})", input.sizes(),
        weight.sizes(), groups, weight.size(1) * groups);
  check(input.dtype() == weight.dtype(), Argument{"input"}, "is {}, weight is {} (expected one dtype)", name(input.dtype()),
        name(weight.dtype()));
  check(padding != Padding::causal, "padding is causal, and an image has no order in time (expected valid or same)");
  const int64_t height = input.size(-3),
                count = shapes::window_count(height, weight.size(2), stride, dilation, padding == Padding::valid);
  // All rows that windows read: from `lead` before the first on, and no more than they reach.
  const int64_t reach = count == 0 ? 0 : (count - 1) * stride + (weight.size(2) - 1) * dilation + 1,
                before = shapes::window_lead(weight.size(2), dilation, padding == Padding::same, false);
  const Tensor rows = pad(input, {0, 0, 0, 0, count == 0 ? 0 : before, count == 0 ? -height : reach - height - before});
  Tensor result;
  for (int64_t y = 0; y < weight.size(2); ++y) {
    const Tensor met = slice(rows, -3, y * dilation, y * dilation + (count == 0 ? 0 : (count - 1) * stride + 1), stride);
    const Tensor part = conv1d(met, select(weight, 2, y), y == 0 ? bias : Tensor(),
                               {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
    result = y == 0 ? part : add(result, part);
  }
  return result;
}

}  // namespace deckle
