// Norms over positions: statistics of groups of channels of one item or component, or of each channel over everything.

#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/launch.h"
#include "deckle/ops/shapes.h"

namespace deckle {
namespace {

void require_channels(const char* what, const Tensor& parameter, int64_t channels) {
  if (!parameter.defined()) return;
  check(parameter.dim() == 1 && parameter.size(0) == channels, "{} has shape {} (expected [{}], the channels)", what,
        to_string(parameter.sizes()), channels);
}

Tensor scaled(const Tensor& normalised, const Tensor& weight, const Tensor& bias) {
  const Tensor result = weight.defined() ? normalised * weight : normalised;
  return bias.defined() ? result + bias : result;
}

}  // namespace

Tensor composite::segment_group_norm(const Tensor& values, const Ragged& ragged, int64_t num_groups, const Tensor& weight,
                                     const Tensor& bias, double eps) {
  check(is_floating(values.dtype()), Argument{"self"}, "is {} (expected a floating dtype)", name(values.dtype()));
  check(eps >= 0, Argument{"eps"}, "is {} (expected 0 or more)", eps);
  check(values.dim() >= 2, "values of shape {} have no channels (expected [rows, ..., C])", to_string(values.sizes()));
  const int64_t channels = values.size(-1);
  check(num_groups >= 1 && channels % num_groups == 0, Argument{"num_groups"}, "is {} (expected a divisor of {}, the channels)",
        num_groups, channels);
  require_channels("weight", weight, channels);
  require_channels("bias", bias, channels);
  const int64_t positions = numel_of(values.sizes().subspan(1).first(values.sizes().size() - 2)), width = channels / num_groups;
  const Tensor x = reshape(to(values, shapes::statistics_dtype(values.dtype())), {values.size(0), positions, num_groups, width});
  // Statistics [components, 1, groups, 1]; an empty component divides nothing by 1.
  const Tensor count = segment_lengths(x, ragged) * static_cast<double>(positions * width);
  const Tensor divisor = maximum(count, ones_like(count));
  const auto average = [&](const Tensor& rows) { return segment_sum(sum(rows, {1, 3}, true), ragged) / divisor; };
  const Tensor centred = detail::sub(x, launch::repeated(average(x), ragged));
  const RepeatedRows scale = launch::repeated(rsqrt(average(square(centred)) + eps), ragged);
  return to(scaled(reshape(detail::mul(centred, scale), values.sizes()), weight, bias), values.dtype());
}

Tensor composite::joined_dims(const Tensor& self, Ints sizes) {
  const auto count = static_cast<int64_t>(sizes.size());
  check(count > 0 && count <= self.dim() && Ints(self.sizes().last(sizes.size())) == sizes,
        "the sizes to normalise are {} and a tensor has shape {} (expected its last dims)", sizes, self.sizes());
  Dims joined(self.sizes().first(static_cast<size_t>(self.dim() - count)));
  joined.push_back(numel_of(sizes));
  return reshape(self, joined);
}

}  // namespace deckle
