// Variance, standard deviation and norm of the rows of each component, column by column.                       One pass in double
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

}  // namespace

void segment_var(const Context& context, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  run(context, values, ragged, reduce::Spread{correction, false}, result);
}
void segment_std(const Context& context, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  run(context, values, ragged, reduce::Spread{correction, true}, result);
}
void segment_norm(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  run(context, values, ragged, reduce::Length{}, result);
}

}  // namespace deckle::kernels::cuda
