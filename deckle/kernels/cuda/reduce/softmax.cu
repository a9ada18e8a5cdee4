// softmax and log_softmax along one dim, and their derivatives.                                   x, y, g: rows of n elements
//   softmax       y = exp(x - max) / sum exp(x - max)      softmax_backward       y (g - sum g y)
//   log_softmax   y = x - max - log sum exp(x - max)       log_softmax_backward   g - exp(y) sum g
// Exponentials are float for float32 and the halves; sums are those of row_tile.cuh. A row of only -inf gives NaN (0 / 0).
//
//   rung                                    bytes per element (float32)   64 M elements at 4.3 TB/s
//   a row read three times, element-wise    4 r + 8 r from L2 + 4 w       0.556 ms
//   a row in registers, vectors of 16 B     4 r + 4 w                     0.133 ms (floor 0.125); backward 0.188 (0.187)
//   arithmetic                              about 20 instructions an element: 0.047 ms, below the memory
//   rows beyond 8192                        4 r + 4 r (L2) + 4 w          the maximum and the sum in one pass, then the result
// benchmarks/results/gpu_ops.json, H200, of 7c1f602 (2026-11-22) and 78c31097 (2026-11-24).
#include "deckle/kernels/cuda/reduce/row_tile.cuh"

namespace deckle::kernels::cuda {
namespace {

using reduce::Rows;
using reduce::Team;
using reduce::Tile;

template <typename T>
__device__ __forceinline__ T larger(T a, T b) {
  return a != a || a > b ? a : b;
}

/// Rows that no tile holds: each thread keeps its maximum so far and the sum of exponentials below it.
template <class S, int kThreads, int kItems>
__device__ void long_forward(Team<kThreads, typename S::T>& team, const Rows& x, const Rows& y, int64_t from, int64_t to,
                             int64_t n, bool logarithm) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  T own = kNothing, total = 0, values[kItems];
  for (int64_t first = 0; first < n; first += Part::kElements) {
    Part::load(x, from, first, n, values, kNothing);
    T most = own;
#pragma unroll
    for (int k = 0; k < kItems; ++k) most = larger(most, values[k]);
    if (most == kNothing) continue;
    if (most != own) total *= ::exp(own - most);
    own = most;
    total += reduce::pairwise<kItems>([&](int k) { return ::exp(values[k] - own); });
  }
  const T max = team.max(own);
  // 0 * exp(-inf - max) of a thread that saw nothing but -inf; NaN if that is all there is.
  total = team.sum(own == kNothing && max != kNothing ? T(0) : total * ::exp(own - max));
  const T scale = 1 / total, log_total = ::log(total);
  for (int64_t first = 0; first < n; first += Part::kElements) {
    Part::load(x, from, first, n, values, kNothing);
#pragma unroll
    for (int k = 0; k < kItems; ++k) values[k] = logarithm ? values[k] - max - log_total : ::exp(values[k] - max) * scale;
    Part::store(y, to, first, n, values);
  }
}

template <class S, int kThreads, int kItems>
__global__ void __launch_bounds__(Team<kThreads, typename S::T>::kBlock)
    forward(const __grid_constant__ Rows x, const __grid_constant__ Rows y, int64_t rows, int64_t n, bool logarithm) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  constexpr T kNothing = -std::numeric_limits<T>::infinity();
  __shared__ typename Team<kThreads, typename S::T>::Shared shared;
  Team<kThreads, typename S::T> team(shared);
  const int64_t row = team.number();
  if (row >= rows) return;  // whole teams leave
  const int64_t from = x.start(row), to = y.start(row);
  if constexpr (kThreads == 512) {
    if (n > Part::kElements) return long_forward<S, kThreads, kItems>(team, x, y, from, to, n, logarithm);
  }
  T values[kItems];
  Part::load(x, from, 0, n, values, kNothing);
  T max = values[0];
#pragma unroll
  for (int k = 1; k < kItems; ++k) max = larger(max, values[k]);
  max = team.max(max);
  if (logarithm) {
    const T total = team.sum(reduce::pairwise<kItems>([&](int k) { return ::exp(values[k] - max); }));
    const T log_total = ::log(total);
#pragma unroll
    for (int k = 0; k < kItems; ++k) values[k] = values[k] - max - log_total;
  } else {
#pragma unroll
    for (int k = 0; k < kItems; ++k) values[k] = ::exp(values[k] - max);
    const T total = team.sum(reduce::pairwise<kItems>([&](int k) { return values[k]; }));
    const T scale = 1 / total;
#pragma unroll
    for (int k = 0; k < kItems; ++k) values[k] *= scale;
  }
  Part::store(y, to, 0, n, values);
}

template <class S, int kThreads, int kItems>
__global__ void __launch_bounds__(Team<kThreads, typename S::T>::kBlock)
    backward(const __grid_constant__ Rows g, const __grid_constant__ Rows y, const __grid_constant__ Rows result, int64_t rows,
             int64_t n, bool logarithm) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  __shared__ typename Team<kThreads, typename S::T>::Shared shared;
  Team<kThreads, typename S::T> team(shared);
  const int64_t row = team.number();
  if (row >= rows) return;
  const int64_t of_g = g.start(row), of_y = y.start(row), to = result.start(row);
  T gradient[kItems], output[kItems], total = 0;
  const auto load = [&](int64_t first) {
    Part::load(g, of_g, first, n, gradient, T(0));
    Part::load(y, of_y, first, n, output, T(0));
  };
  const auto add = [&] {
    total += reduce::pairwise<kItems>([&](int k) { return logarithm ? gradient[k] : gradient[k] * output[k]; });
    if (logarithm) {  // while the sum is under way
#pragma unroll
      for (int k = 0; k < kItems; ++k) output[k] = ::exp(output[k]);
    }
  };
  const auto write = [&](int64_t first, T sum) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) gradient[k] = logarithm ? gradient[k] - output[k] * sum : output[k] * (gradient[k] - sum);
    Part::store(result, to, first, n, gradient);
  };
  if constexpr (kThreads == 512) {
    if (n > Part::kElements) {
      for (int64_t first = 0; first < n; first += Part::kElements) {
        load(first);
        add();
      }
      const T sum = team.sum(total);
      for (int64_t first = 0; first < n; first += Part::kElements) {
        load(first);
        add();  // the exponentials; the sum is taken
        write(first, sum);
      }
      return;
    }
  }
  load(0);
  add();
  write(0, team.sum(total));
}

int64_t length_of(const View& view, int64_t dim) { return view.ndim == 0 ? 1 : view.sizes[dim]; }

void run_forward(const Context& context, const View& self, int64_t dim, const View& result, bool logarithm) {
  const int64_t n = length_of(self, dim), count = self.numel();
  if (count == 0) return;
  const Rows x(self, dim), y(result, dim);
  const deckle::cuda::DeviceGuard guard(context.device);
  const bool vectors = self.dtype == result.dtype && reduce::packed(x, n) && reduce::packed(y, n);
  reduce::for_tiles(vectors, self.dtype, n, [&](auto storage, auto shape) {
    using Its = Team<shape.kThreads, float>;
    forward<decltype(storage), shape.kThreads, shape.kItems>
        <<<reduce::blocks_of(count / n, Its::kBlock / shape.kThreads), Its::kBlock, 0,
           deckle::cuda::stream_handle(context.device)>>>(x, y, count / n, n, logarithm);
  });
  deckle::cuda::check_launch(context.device);
}

void run_backward(const Context& context, const View& gradient, const View& output, int64_t dim, const View& result,
                  bool logarithm) {
  const int64_t n = length_of(output, dim), count = output.numel();
  if (count == 0) return;
  const Rows g(gradient, dim), y(output, dim), to(result, dim);
  const deckle::cuda::DeviceGuard guard(context.device);
  const bool vectors = gradient.dtype == output.dtype && output.dtype == result.dtype && reduce::packed(g, n) &&
                       reduce::packed(y, n) && reduce::packed(to, n);
  reduce::for_tiles(vectors, output.dtype, n, [&](auto storage, auto shape) {
    using Its = Team<shape.kThreads, float>;
    backward<decltype(storage), shape.kThreads, shape.kItems>
        <<<reduce::blocks_of(count / n, Its::kBlock / shape.kThreads), Its::kBlock, 0,
           deckle::cuda::stream_handle(context.device)>>>(g, y, to, count / n, n, logarithm);
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
