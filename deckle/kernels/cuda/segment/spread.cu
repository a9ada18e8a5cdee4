// Variance, standard deviation and norm of the rows of each component, column by column.                       One pass in double
#include "deckle/kernels/cuda/reduce/scaled_spread.cuh"
#include "deckle/kernels/cuda/segment/fold.cuh"

namespace deckle::kernels::cuda {
namespace {

void spread(const Context& context, const View& values, const RaggedView& ragged, const reduce::Spread& of, const View& result) {
  if (values.dtype == DType::float64)
    segment::fold_rows(context, values, ragged, reduce::ScaledSpread{of}, result);
  else
    segment::fold_rows(context, values, ragged, of, result);
}

}  // namespace

void segment_var(const Context& context, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  spread(context, values, ragged, {correction, false}, result);
}
void segment_std(const Context& context, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  spread(context, values, ragged, {correction, true}, result);
}
void segment_norm(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  segment::fold_rows(context, values, ragged, reduce::Length{}, result);
}

}  // namespace deckle::kernels::cuda
