// Cross entropy of rows of logits with smoothed integer targets, and its derivatives; the formulas are those of the CPU's kernel.
//   q_j  = (1 - smoothing) [j = target] + smoothing / n,  lse = max x + log sum_j exp(x_j - max x)
//   loss = lse - sum_j q_j x_j, 0 where the target is ignored;  dx_j = (dloss m + dlse) p_j - dloss m q_j, p_j = exp(x_j - lse)
// Exponentials are float for float32 and the halves; sums are double, and leave the maxima out, each of which is 1.
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/reduce/rows.cuh"

namespace deckle::kernels::cuda {
namespace {

using index::Fault;
using index::Indices;
using reduce::Group;

struct Logits {
  const void* data;
  DType dtype;
  int64_t rows, n;
  explicit Logits(const View& view) : data(view.data), dtype(view.dtype), rows(view.sizes[0]), n(view.sizes[1]) {}
  template <typename T>
  __device__ T get(int64_t row, int64_t i) const {
    return pointwise::load<T>(data, dtype, row * n + i);
  }
};

struct Targets {
  Indices view;
  int64_t ignore_index;
  double smoothing;
  Fault fault;

  /// -1: ignored.
  __device__ int64_t at(int64_t row, int64_t n, bool reports) const {
    const int64_t target = view.at(row);
    if (target == ignore_index) return -1;
    if (target >= 0 && target < n) return target;
    if (reports) fault.report(target, n);
    return -1;
  }
};

template <typename T, int kThreads>
__global__ void __launch_bounds__(256) forward(const __grid_constant__ Logits x, const __grid_constant__ Targets targets,
                                               void* loss, DType loss_dtype, double* lse) {
  __shared__ double shared[256];
  const Group<kThreads> group{shared};
  const int64_t row = group.number();
  if (row >= x.rows) return;
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = group.lane(); i < x.n; i += kThreads) {
    const double value = x.get<T>(row, i);
    largest = value != value || value > largest ? value : largest;
  }
  largest = group.max(largest);
  const T shift = ::isinf(largest) ? T(0) : static_cast<T>(largest);  // inf - inf is NaN
  double rest = 0, maxima = 0, total = 0;
  for (int64_t i = group.lane(); i < x.n; i += kThreads) {
    const T value = x.get<T>(row, i) - shift;
    if (value == 0)
      maxima += 1;
    else
      rest += ::exp(value);
    total += value;
  }
  rest = group.sum(rest);
  maxima = group.sum(maxima);
  if (targets.smoothing > 0) total = group.sum(total);
  if (group.lane() != 0) return;
  const double log_sum = ::log1p(rest + (maxima - 1));
  const int64_t chosen = targets.at(row, x.n, true);
  double value = 0;
  if (chosen >= 0) {
    value = log_sum - (1 - targets.smoothing) * (static_cast<double>(x.get<T>(row, chosen)) - shift);
    if (targets.smoothing > 0) value -= targets.smoothing / static_cast<double>(x.n) * total;
  }
  pointwise::store(value, loss, loss_dtype, row);
  lse[2 * row] = shift;
  lse[2 * row + 1] = log_sum;
}

template <typename T, int kThreads>
__global__ void __launch_bounds__(256)
    backward(const __grid_constant__ Logits x, const __grid_constant__ Targets targets, const void* loss_gradient,
             DType loss_dtype, const void* lse_gradient, DType lse_dtype, const double* lse, void* result, DType result_dtype) {
  const int64_t row = Group<kThreads>::number();
  if (row >= x.rows) return;
  const int64_t chosen = targets.at(row, x.n, false);
  const double from_loss = chosen >= 0 ? pointwise::load<double>(loss_gradient, loss_dtype, row) : 0,
               from_lse = pointwise::load<double>(lse_gradient, lse_dtype, row);
  const bool nothing = from_loss == 0 && from_lse == 0;  // an ignored row may hold anything
  const double uniform = targets.smoothing / static_cast<double>(x.n);
  const T shift = static_cast<T>(lse[2 * row]), log_sum = static_cast<T>(lse[2 * row + 1]);
  const T weight = static_cast<T>(from_loss + from_lse), constant = static_cast<T>(from_loss * uniform);
  for (int64_t i = static_cast<int>(threadIdx.x) % kThreads; i < x.n; i += kThreads) {
    T gradient = 0;
    if (!nothing) {
      const T value = x.get<T>(row, i);
      if (i == chosen) {
        const double at_target = static_cast<double>(value) - lse[2 * row] - lse[2 * row + 1];
        gradient = static_cast<T>(from_loss * (::expm1(at_target) + (targets.smoothing - uniform)) + from_lse * ::exp(at_target));
      } else {
        gradient = weight * ::exp(value - shift - log_sum) - constant;
      }
    }
    pointwise::store<T>(gradient, result, result_dtype, row * x.n + i);
  }
}

/// tlse = sum_j p_j t_j, tloss = m (tlse - sum_j q_j t_j), tangents taken relative to the target's.
template <typename T, int kThreads>
__global__ void __launch_bounds__(256)
    tangents(const __grid_constant__ Logits t, const __grid_constant__ Logits x, const __grid_constant__ Targets targets,
             const double* lse, void* loss, DType loss_dtype, void* lse_tangent, DType lse_dtype) {
  __shared__ double shared[256];
  const Group<kThreads> group{shared};
  const int64_t row = group.number();
  if (row >= x.rows) return;
  const int64_t chosen = targets.at(row, x.n, false);
  const T shift = chosen >= 0 ? t.get<T>(row, chosen) : T(0), high = static_cast<T>(lse[2 * row]),
          low = static_cast<T>(lse[2 * row + 1]);
  double relative = 0, total = 0;
  for (int64_t i = group.lane(); i < x.n; i += kThreads) {
    const T distance = t.get<T>(row, i) - shift;
    relative += ::exp(x.get<T>(row, i) - high - low) * distance;
    total += distance;
  }
  relative = group.sum(relative);
  total = group.sum(total);
  if (group.lane() != 0) return;
  const double value = chosen >= 0 ? relative - targets.smoothing / static_cast<double>(x.n) * total : 0;
  pointwise::store(value, loss, loss_dtype, row);
  pointwise::store(relative + static_cast<double>(shift), lse_tangent, lse_dtype, row);
}

Targets targets_of(const Context& context, const View& target, int64_t ignore_index, double smoothing) {
  return {Indices(target), ignore_index, smoothing, Fault(context.device)};
}

}  // namespace

void cross_entropy_rows(const Context& context, const View& input, const View& target, int64_t ignore_index,
                        double label_smoothing, const View& loss, const View& lse) {
  if (loss.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Targets targets = targets_of(context, target, ignore_index, label_smoothing);
  reduce::for_rows(input.dtype, input.sizes[0], input.sizes[1], [&](auto type, auto threads, unsigned blocks) {
    forward<decltype(type), threads.value><<<blocks, 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Logits(input), targets, loss.data, loss.dtype, lse.ptr<double>());
  });
  deckle::cuda::check_launch(context.device);
}

void cross_entropy_rows_backward(const Context& context, const View& loss_gradient, const View& lse_gradient, const View& input,
                                 const View& target, const View& lse, int64_t ignore_index, double label_smoothing,
                                 const View& result) {
  if (result.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Targets targets = targets_of(context, target, ignore_index, label_smoothing);
  reduce::for_rows(input.dtype, input.sizes[0], input.sizes[1], [&](auto type, auto threads, unsigned blocks) {
    backward<decltype(type), threads.value><<<blocks, 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Logits(input), targets, loss_gradient.data, loss_gradient.dtype, lse_gradient.data, lse_gradient.dtype, lse.ptr<double>(),
        result.data, result.dtype);
  });
  deckle::cuda::check_launch(context.device);
}

void cross_entropy_rows_jvp(const Context& context, const View& tangent, const View& input, const View& target, const View& lse,
                            int64_t ignore_index, double label_smoothing, const View& loss, const View& lse_tangent) {
  if (loss.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Targets targets = targets_of(context, target, ignore_index, label_smoothing);
  reduce::for_rows(input.dtype, input.sizes[0], input.sizes[1], [&](auto type, auto threads, unsigned blocks) {
    tangents<decltype(type), threads.value><<<blocks, 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Logits(tangent), Logits(input), targets, lse.ptr<double>(), loss.data, loss.dtype, lse_tangent.data, lse_tangent.dtype);
  });
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
