// Losses of nested tensors, reduced to one number, one for each sequence, one for each token, or not at all.

#include "deckle/base/check.h"
#include "deckle/nested/generated/loss.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle::nested {
namespace {

void require_sequences(const NestedTensor& x) {
  check(x.ragged().defined(), "shape {} has no ragged dim, so no sequences (expected one)", nested::ShapeOf{x});
}

Tensor reduce(const NestedTensor& errors, Reduction reduction) {
  const Tensor& values = whole(errors);
  if (reduction == Reduction::none) return values;
  if (reduction == Reduction::sum) return sum(values);
  if (reduction == Reduction::mean) return mean(values);
  Dims regular;
  for (int64_t dim = 1; dim < values.dim(); ++dim) regular.push_back(dim);
  const Tensor tokens = regular.empty() ? values : mean(values, regular);
  if (reduction == Reduction::token) return tokens;
  require_sequences(errors);
  return masked_fill(segment_mean(tokens, errors.ragged()), eq(segment_lengths(tokens, errors.ragged()), 0), 0);
}

/// Losses of classes, [rows, ...], of which only some count; without `counts`, all.
Tensor reduced_classes(const Tensor& losses, const Tensor& counts, const NestedTensor& like, Reduction reduction) {
  whole(like);
  if (reduction == Reduction::none) return losses;
  if (reduction == Reduction::token && losses.dim() == 1) return losses;
  if (reduction == Reduction::sum) return sum(losses);
  // Sums and counts of many tokens need more than 16 bits, their quotient does not.
  const DType wide = shapes::statistics_dtype(losses.dtype());
  const Tensor summands = to(losses, wide);
  const Tensor counted = counts.defined() ? to(counts, wide) : ones_like(summands.detach());
  if (reduction == Reduction::mean) return to(sum(summands) / sum(counted), losses.dtype());
  Dims places;
  for (int64_t dim = 1; dim < losses.dim(); ++dim) places.push_back(dim);
  const auto of_rows = [&](const Tensor& x) { return places.empty() ? x : sum(x, places); };
  if (reduction == Reduction::token) return to(of_rows(summands) / clamp_min(of_rows(counted), 1.0), losses.dtype());
  require_sequences(like);
  const auto of_sequences = [&](const Tensor& x) { return segment_sum(of_rows(x), like.ragged()); };
  return to(of_sequences(summands) / clamp_min(of_sequences(counted), 1.0), losses.dtype());
}

}  // namespace

Tensor mse_loss(const NestedTensor& input, const NestedTensor& target, Reduction reduction) {
  return reduce(squared_error(input, target), reduction);
}

Tensor l1_loss(const NestedTensor& input, const NestedTensor& target, Reduction reduction) {
  return reduce(absolute_error(input, target), reduction);
}

Tensor smooth_l1_loss(const NestedTensor& input, const NestedTensor& target, const Scalar& beta, Reduction reduction) {
  return reduce(smooth_error(input, target, beta), reduction);
}

Tensor huber_loss(const NestedTensor& input, const NestedTensor& target, const Scalar& delta, Reduction reduction) {
  return reduce(huber_error(input, target, delta), reduction);
}

Tensor binary_cross_entropy_with_logits(const NestedTensor& input, const NestedTensor& target, Reduction reduction) {
  return reduce(logistic_error(input, target), reduction);
}

Tensor binary_cross_entropy(const NestedTensor& input, const NestedTensor& target, Reduction reduction) {
  return reduce(probability_error(input, target), reduction);
}

Tensor kl_div(const NestedTensor& input, const NestedTensor& target, Reduction reduction) {
  return reduce(divergence_error(input, target), reduction);
}

Tensor nll_loss(const NestedTensor& input, const NestedTensor& target, int64_t ignore_index, Reduction reduction) {
  nested::require_same_ragged(input, target, "input", "target");
  const Tensor losses = nll_loss(input.values(), target.values(), {.ignore_index = ignore_index, .reduction = Reduction::none});
  return reduced_classes(losses, ne(target.values(), ignore_index), input, reduction);
}

Tensor cross_entropy(const NestedTensor& input, const NestedTensor& target, int64_t ignore_index, double label_smoothing,
                     Reduction reduction) {
  nested::require_same_ragged(input, target, "input", "target");
  require_regular_dim(input);
  const Tensor losses =
      cross_entropy(input.values(), target.values(),
                    {.ignore_index = ignore_index, .label_smoothing = label_smoothing, .reduction = Reduction::none});
  // Probabilities count, whatever number they are.
  const Tensor counts = is_floating(target.dtype()) ? Tensor() : ne(target.values(), ignore_index);
  return reduced_classes(losses, counts, input, reduction);
}

}  // namespace deckle::nested
