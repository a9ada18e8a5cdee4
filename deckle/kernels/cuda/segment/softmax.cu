// Softmax and log-sum-exp over the rows of each component, column by column.                            values: [rows, inner]
//   segment_softmax                y = exp(x - max) / sum exp(x - max)     a component's columns are read twice, mostly from L2
//   segment_log_softmax            x - max - log sum exp(x - max)
//   segment_logsumexp              max + log sum exp(x - max)
//   segment_softmax_backward       y (g - sum g y)
//   segment_log_softmax_backward   g - exp(y) sum g
// Sums in double; exponentials of what is written in float for float32 and the halves.
#include "deckle/kernels/cuda/segment/fold.cuh"

namespace deckle::kernels::cuda {
namespace {

using segment::DeviceRagged;
using segment::Values;

/// Both results are functions of x and of the log-sum-exp of its column.
template <class Its, typename T>
__global__ void __launch_bounds__(256) forward(Values x, Values y, DeviceRagged ragged, bool logarithm) {
  using Kind = reduce::LogSumExp;
  __shared__ Kind::Acc shared[256];
  const int64_t component = Its::component(ragged), column = Its::column_of(ragged);
  const int64_t begin = ragged.offsets[component], end = column < x.inner ? ragged.offsets[component + 1] : begin;
  Kind::Acc acc = Kind().start();
  for (int64_t row = begin + Its::depth(); row < end; row += Its::kDepth) {
    // The exponential alone in T: a sum relative to the largest so far.
    const double value = x.get<T>(ragged.row(row), column);
    if (acc.sum != 0 && value <= acc.largest)
      acc.sum += value == acc.largest ? 1 : static_cast<double>(::exp(static_cast<T>(value - acc.largest)));
    else
      Kind().add(acc, value, row);
  }
  acc = segment::merge_threads<Its>(Kind(), acc, shared);
  if (acc.largest == std::numeric_limits<double>::infinity()) acc.sum = std::numeric_limits<double>::quiet_NaN();  // inf - inf
  const T largest = static_cast<T>(acc.largest), scale = static_cast<T>(1 / acc.sum), log_sum = static_cast<T>(::log(acc.sum));
  for (int64_t row = begin + Its::depth(); row < end; row += Its::kDepth) {
    const T shifted = x.get<T>(ragged.row(row), column) - largest;
    y.put<T>(logarithm ? shifted - log_sum : ::exp(shifted) * scale, ragged.row(row), column);
  }
}

template <class Its, typename T, bool kLogarithm>
__global__ void __launch_bounds__(256) backward(Values g, Values y, Values result, DeviceRagged ragged) {
  __shared__ double shared[256];
  const int64_t component = Its::component(ragged), column = Its::column_of(ragged);
  const int64_t begin = ragged.offsets[component], end = column < g.inner ? ragged.offsets[component + 1] : begin;
  double total = 0;
  for (int64_t row = begin + Its::depth(); row < end; row += Its::kDepth)
    total += g.get<double>(ragged.row(row), column) * (kLogarithm ? 1.0 : y.get<double>(ragged.row(row), column));
  const T sum = static_cast<T>(segment::merge_threads<Its>(reduce::Sum<double>{}, total, shared));
  for (int64_t row = begin + Its::depth(); row < end; row += Its::kDepth) {
    const int64_t at = ragged.row(row);
    const T gradient = g.get<T>(at, column), output = y.get<T>(at, column);
    result.put<T>(kLogarithm ? gradient - ::exp(output) * sum : output * (gradient - sum), at, column);
  }
}

/// Calls launch(T(), block tag, grid, ragged on the device).
template <typename Launch>
void run(const Context& context, const View& self, const RaggedView& ragged, const Launch& launch) {
  if (self.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded uploaded(context, ragged);
  segment::for_blocks(Values(self), ragged.components, [&](auto block, dim3 grid) {
    if (self.dtype == DType::float64)
      launch(double(), block, grid, uploaded.ragged());
    else
      launch(float(), block, grid, uploaded.ragged());
  });
  deckle::cuda::check_launch(context.device);
}

void run_forward(const Context& context, const View& values, const RaggedView& ragged, const View& result, bool logarithm) {
  run(context, values, ragged, [&](auto zero, auto block, dim3 grid, const DeviceRagged& on_device) {
    forward<decltype(block), decltype(zero)>
        <<<grid, 256, 0, deckle::cuda::stream_handle(context.device)>>>(Values(values), Values(result), on_device, logarithm);
  });
}

template <bool kLogarithm>
void run_backward(const Context& context, const View& gradient, const View& output, const RaggedView& ragged,
                  const View& result) {
  run(context, output, ragged, [&](auto zero, auto block, dim3 grid, const DeviceRagged& on_device) {
    backward<decltype(block), decltype(zero), kLogarithm><<<grid, 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Values(gradient), Values(output), Values(result), on_device);
  });
}

}  // namespace

void segment_softmax(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  run_forward(context, values, ragged, result, false);
}
void segment_log_softmax(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  run_forward(context, values, ragged, result, true);
}
void segment_softmax_backward(const Context& context, const View& gradient, const View& output, const RaggedView& ragged,
                              const View& result) {
  run_backward<false>(context, gradient, output, ragged, result);
}
void segment_log_softmax_backward(const Context& context, const View& gradient, const View& output, const RaggedView& ragged,
                                  const View& result) {
  run_backward<true>(context, gradient, output, ragged, result);
}
void segment_logsumexp(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  if (result.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded uploaded(context, ragged);
  segment::fold<double>(context, values, uploaded.ragged(), reduce::LogSumExp(), {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
