#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle {

Tensor cross_entropy(const Tensor& input, const Tensor& target, int64_t ignore_index, double label_smoothing,
                     std::string_view reduction) try {
  check(input.dim() == 2 && target.dim() == 1 && input.size(0) == target.size(0),
        "input has shape {} and target {} (expected logits [N, C] and targets [N])", input.sizes(), target.sizes());
  check(target.dtype() == DType::int64 || target.dtype() == DType::int32, Argument{"target"}, "is {} (expected int64 or int32)",
        name(target.dtype()));
  check(is_floating(input.dtype()), Argument{"input"}, "is {} (expected a floating dtype)", name(input.dtype()));
  check(label_smoothing >= 0 && label_smoothing <= 1, Argument{"label_smoothing"}, "is {} (expected 0..1)", label_smoothing);
  check(reduction == "mean" || reduction == "sum" || reduction == "none", Argument{"reduction"},
        "is '{}' (expected mean, sum or none)", reduction);
  const auto [loss, lse] = cross_entropy_rows(input, target, ignore_index, label_smoothing);
  if (reduction == "none") return loss;
  if (reduction == "sum") return sum(loss);
  const DType wide =
      shapes::statistics_dtype(loss.dtype());  // the sum of many losses needs more than 16 bits, their mean does not
  return to(sum(to(loss, wide)) / sum(ne(target, ignore_index)),
            loss.dtype());  // no target: 0 / 0 is NaN, as the mean of nothing is
} catch (...) {
  rethrow_from("cross_entropy");
}

}  // namespace deckle
