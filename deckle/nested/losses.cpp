// Losses of nested tensors, reduced to one number, one for each sequence, one for each token, or not at all.

#include "deckle/base/check.h"
#include "deckle/nested/generated/loss.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle::nested {
namespace {

void require_reduction(std::string_view reduction) {
  check(reduction == "none" || reduction == "token" || reduction == "sequence" || reduction == "sum" || reduction == "mean",
        "reduction is '{}' (expected none, token, sequence, sum or mean)", reduction);
}

void require_sequences(const NestedTensor& x) {
  check(x.ragged().defined(), "shape {} has no ragged dim, so no sequences", nested::ShapeOf{x});
}

Tensor reduced(const NestedTensor& errors, std::string_view reduction) {
  require_reduction(reduction);
  const Tensor& values = errors.values();
  if (reduction == "none") return values;
  if (reduction == "sum") return sum(values);
  if (reduction == "mean") return mean(values);
  Dims regular;
  for (int64_t dim = 1; dim < values.dim(); ++dim) regular.push_back(dim);
  const Tensor tokens = regular.empty() ? values : mean(values, regular);
  if (reduction == "token") return tokens;
  require_sequences(errors);
  return masked_fill(segment_mean(tokens, errors.ragged()), eq(segment_lengths(tokens, errors.ragged()), 0), 0);
}

/// Losses of classes, [rows], of which only some count.
Tensor reduced_classes(const Tensor& losses, const Tensor& counts, const NestedTensor& like, std::string_view reduction) {
  require_reduction(reduction);
  if (reduction == "none" || reduction == "token") return losses;
  if (reduction == "sum") return sum(losses);
  // Sums and counts of many tokens need more than 16 bits, their quotient does not.
  const DType wide = shapes::statistics_dtype(losses.dtype());
  const Tensor summands = to(losses, wide), counted = to(counts, wide);
  if (reduction == "mean") return to(sum(summands) / sum(counted), losses.dtype());
  require_sequences(like);
  return to(segment_sum(summands, like.ragged()) / clamp_min(segment_sum(counted, like.ragged()), 1.0), losses.dtype());
}

}  // namespace

Tensor mse_loss(const NestedTensor& input, const NestedTensor& target, std::string_view reduction) {
  return reduced(squared_error(input, target), reduction);
}

Tensor l1_loss(const NestedTensor& input, const NestedTensor& target, std::string_view reduction) {
  return reduced(absolute_error(input, target), reduction);
}

Tensor smooth_l1_loss(const NestedTensor& input, const NestedTensor& target, const Scalar& beta, std::string_view reduction) {
  check(beta.to_double() >= 0, "beta is {} (expected 0 or more)", beta.to_double());
  return reduced(smooth_error(input, target, beta), reduction);
}

Tensor huber_loss(const NestedTensor& input, const NestedTensor& target, const Scalar& delta, std::string_view reduction) {
  check(delta.to_double() > 0, "delta is {} (expected more than 0)", delta.to_double());
  return reduced(huber_error(input, target, delta), reduction);
}

Tensor bce_with_logits_loss(const NestedTensor& input, const NestedTensor& target, std::string_view reduction) {
  return reduced(logistic_error(input, target), reduction);
}

Tensor kl_div_loss(const NestedTensor& input, const NestedTensor& target, std::string_view reduction) {
  return reduced(divergence_error(input, target), reduction);
}

Tensor nll_loss(const NestedTensor& input, const NestedTensor& target, int64_t ignore_index, std::string_view reduction) {
  nested::require_same_ragged(input, target, "input", "target");
  const Tensor losses = nll_loss(input.values(), target.values(), ignore_index, "none");
  return reduced_classes(losses, ne(target.values(), ignore_index), input, reduction);
}

Tensor cross_entropy(const NestedTensor& input, const NestedTensor& target, int64_t ignore_index, double label_smoothing,
                     std::string_view reduction) {
  nested::require_same_ragged(input, target, "input", "target");
  const Tensor losses = cross_entropy(input.values(), target.values(), ignore_index, label_smoothing, "none");
  return reduced_classes(losses, ne(target.values(), ignore_index), input, reduction);
}

}  // namespace deckle::nested
