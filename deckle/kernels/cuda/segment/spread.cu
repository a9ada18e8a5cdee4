// Variance, standard deviation and norm of the rows of each component, column by column.                       One pass in double
#include "deckle/kernels/cuda/reduce/scaled_spread.cuh"
#include "deckle/kernels/cuda/segment/fold.cuh"

namespace deckle::kernels::cuda {
namespace {

template <class R>
void run(const Context& context, const View& values, const RaggedView& ragged, const R& reduction, const View& result) {
  if (result.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded uploaded(context, ragged);
  segment::fold<double>(context, values, uploaded.ragged(), reduction, {reduce::output_of(result), {}});
}

void spread(const Context& context, const View& values, const RaggedView& ragged, const reduce::Spread& of, const View& result) {
  if (values.dtype == DType::float64)
    run(context, values, ragged, reduce::ScaledSpread{of}, result);
  else
    run(context, values, ragged, of, result);
}

}  // namespace

void segment_var(const Context& context, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  spread(context, values, ragged, {correction, false}, result);
}
void segment_std(const Context& context, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  spread(context, values, ragged, {correction, true}, result);
}
void segment_norm(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  run(context, values, ragged, reduce::Length{}, result);
}

}  // namespace deckle::kernels::cuda
