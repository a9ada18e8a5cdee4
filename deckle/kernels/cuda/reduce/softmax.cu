// softmax and log_softmax along one dim, and their derivatives.                                   x, y, g: rows of n elements
//   softmax       y = exp(x - max) / sum exp(x - max)      softmax_backward       y (g - sum g y)
//   log_softmax   y = x - max - log sum exp(x - max)       log_softmax_backward   g - exp(y) sum g
// A row is read twice, the second time mostly from a cache. Exponentials are float for float32 and the halves; sums are double.
// A row of only -inf gives NaN (0 / 0).
#include "deckle/kernels/cuda/reduce/rows.cuh"

namespace deckle::kernels::cuda {
namespace {

using reduce::Group;
using reduce::Rows;

template <typename T, int kThreads>
__global__ void __launch_bounds__(256)
    forward(const __grid_constant__ Rows x, const __grid_constant__ Rows y, int64_t rows, int64_t n, bool logarithm) {
  __shared__ double shared[256];
  const Group<kThreads> group{shared};
  const int64_t row = group.number();
  if (row >= rows) return;  // whole groups leave
  const int64_t from = x.start(row), to = y.start(row);
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = group.lane(); i < n; i += kThreads) {
    const double value = x.get<T>(from, i);
    largest = value != value || value > largest ? value : largest;
  }
  const T max = static_cast<T>(group.max(largest));
  double total = 0;
  for (int64_t i = group.lane(); i < n; i += kThreads) total += ::exp(x.get<T>(from, i) - max);
  total = group.sum(total);
  const T scale = static_cast<T>(1 / total), log_total = static_cast<T>(::log(total));
  for (int64_t i = group.lane(); i < n; i += kThreads) {
    const T shifted = x.get<T>(from, i) - max;
    y.put<T>(logarithm ? shifted - log_total : ::exp(shifted) * scale, to, i);
  }
}

template <typename T, int kThreads>
__global__ void __launch_bounds__(256) backward(const __grid_constant__ Rows g, const __grid_constant__ Rows y,
                                                const __grid_constant__ Rows result, int64_t rows, int64_t n, bool logarithm) {
  __shared__ double shared[256];
  const Group<kThreads> group{shared};
  const int64_t row = group.number();
  if (row >= rows) return;
  const int64_t of_g = g.start(row), of_y = y.start(row), to = result.start(row);
  double total = 0;
  for (int64_t i = group.lane(); i < n; i += kThreads) {
    const double gradient = g.get<T>(of_g, i);
    total += logarithm ? gradient : gradient * static_cast<double>(y.get<T>(of_y, i));
  }
  const T sum = static_cast<T>(group.sum(total));
  for (int64_t i = group.lane(); i < n; i += kThreads) {
    const T gradient = g.get<T>(of_g, i), value = y.get<T>(of_y, i);
    result.put<T>(logarithm ? gradient - ::exp(value) * sum : value * (gradient - sum), to, i);
  }
}

int64_t length_of(const View& view, int64_t dim) { return view.ndim == 0 ? 1 : view.sizes[dim]; }

void run_forward(const Context& context, const View& self, int64_t dim, const View& result, bool logarithm) {
  const int64_t n = length_of(self, dim), count = self.numel();
  if (count == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  reduce::for_rows(self.dtype, count / n, n, [&](auto type, auto threads, unsigned blocks) {
    forward<decltype(type), threads.value><<<blocks, 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Rows(self, dim), Rows(result, dim), count / n, n, logarithm);
  });
  deckle::cuda::check_launch(context.device);
}

void run_backward(const Context& context, const View& gradient, const View& output, int64_t dim, const View& result,
                  bool logarithm) {
  const int64_t n = length_of(output, dim), count = output.numel();
  if (count == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  reduce::for_rows(output.dtype, count / n, n, [&](auto type, auto threads, unsigned blocks) {
    backward<decltype(type), threads.value><<<blocks, 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Rows(gradient, dim), Rows(output, dim), Rows(result, dim), count / n, n, logarithm);
  });
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void softmax(const Context& context, const View& self, int64_t dim, const View& result) {
  run_forward(context, self, dim, result, false);
}
void log_softmax(const Context& context, const View& self, int64_t dim, const View& result) {
  run_forward(context, self, dim, result, true);
}
void softmax_backward(const Context& context, const View& gradient, const View& output, int64_t dim, const View& result) {
  run_backward(context, gradient, output, dim, result, false);
}
void log_softmax_backward(const Context& context, const View& gradient, const View& output, int64_t dim, const View& result) {
  run_backward(context, gradient, output, dim, result, true);
}

}  // namespace deckle::kernels::cuda
