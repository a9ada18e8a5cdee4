// Sums, means and products of the rows of each component.                       values: [rows, inner], result: [B, inner]
// In double, or int64. The mean of no rows is NaN.
#include "deckle/kernels/cuda/reduce/scaled_mean.cuh"
#include "deckle/kernels/cuda/segment/fold.cuh"

namespace deckle::kernels::cuda {

void segment_sum(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  segment::fold_exact(context, values, ragged, result,
                      [](auto zero, const segment::DeviceRagged&) { return reduce::Sum<decltype(zero)>{}; });
}
void segment_mean(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  if (values.dtype == DType::float64)
    segment::fold_rows(context, values, ragged, reduce::ScaledMean(), result);
  else
    segment::fold_exact(context, values, ragged, result,
                        [](auto zero, const segment::DeviceRagged&) { return reduce::Sum<decltype(zero)>{true}; });
}
void segment_prod(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  segment::fold_exact(context, values, ragged, result,
                      [](auto zero, const segment::DeviceRagged&) { return reduce::Product<decltype(zero)>{}; });
}

}  // namespace deckle::kernels::cuda
