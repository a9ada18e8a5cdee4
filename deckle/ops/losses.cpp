// Losses of two tensors: an elementwise error, reduced.

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle {
namespace {

/// A target that broadcasts would compare every element with every other: [N, 1] with [N] has N * N errors.
void require_same_shape(const Tensor& input, const Tensor& target) {
  check(target.sizes() == input.sizes(), Argument{"target"}, "has shape {} (expected input's, {})", to_string(target.sizes()),
        to_string(input.sizes()));
}

Tensor reduced(const Tensor& errors, std::string_view reduction) {
  check(reduction == "mean" || reduction == "sum" || reduction == "none", Argument{"reduction"},
        "is '{}' (expected mean, sum or none)", reduction);
  return reduction == "none" ? errors : reduction == "sum" ? sum(errors) : mean(errors);
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, std::string_view reduction) try {
  require_same_shape(input, target);
  return reduced(squared_error(input, target), reduction);
} catch (...) {
  rethrow_from("mse_loss");
}

Tensor l1_loss(const Tensor& input, const Tensor& target, std::string_view reduction) try {
  require_same_shape(input, target);
  return reduced(absolute_error(input, target), reduction);
} catch (...) {
  rethrow_from("l1_loss");
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const Scalar& beta, std::string_view reduction) try {
  check(beta.to_double() >= 0, Argument{"beta"}, "is {} (expected 0 or more)", beta.to_double());
  require_same_shape(input, target);
  return reduced(smooth_error(input, target, beta), reduction);
} catch (...) {
  rethrow_from("smooth_l1_loss");
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const Scalar& delta, std::string_view reduction) try {
  check(delta.to_double() > 0, Argument{"delta"}, "is {} (expected more than 0)", delta.to_double());
  require_same_shape(input, target);
  return reduced(huber_error(input, target, delta), reduction);
} catch (...) {
  rethrow_from("huber_loss");
}

Tensor bce_with_logits_loss(const Tensor& input, const Tensor& target, std::string_view reduction) try {
  require_same_shape(input, target);
  return reduced(logistic_error(input, target), reduction);
} catch (...) {
  rethrow_from("bce_with_logits_loss");
}

Tensor kl_div_loss(const Tensor& input, const Tensor& target, std::string_view reduction) try {
  require_same_shape(input, target);
  return reduced(divergence_error(input, target), reduction);
} catch (...) {
  rethrow_from("kl_div_loss");
}

Tensor nll_loss(const Tensor& input, const Tensor& target, int64_t ignore_index, std::string_view reduction) try {
  check(input.dim() == 2 && target.dim() == 1 && input.size(0) == target.size(0),
        "input has shape {} and target {} (expected log-probabilities [N, C] and targets [N])", to_string(input.sizes()),
        to_string(target.sizes()));
  const Tensor counts = ne(target, ignore_index);
  const Tensor picked = squeeze(gather(input, 1, unsqueeze(masked_fill(target, eq(target, ignore_index), 0), 1)), 1);
  const Tensor losses = where(counts, neg(picked), 0.0);
  if (reduction != "mean") return reduced(losses, reduction);
  const DType wide = shapes::statistics_dtype(losses.dtype());  // as in cross_entropy
  return to(sum(to(losses, wide)) / static_cast<double>(sum(counts).item<int64_t>()),
            losses.dtype());  // no target: 0 / 0 is NaN, as the mean of nothing is
} catch (...) {
  rethrow_from("nll_loss");
}

}  // namespace deckle
