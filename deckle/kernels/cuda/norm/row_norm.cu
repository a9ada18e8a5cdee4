// layer_norm and rms_norm over the last dim.                                              x: [rows, n], contiguous; w, b: [n]
//   y = xh w + b, xh: statistics.cuh
//
//   rung                                       bytes per element (float32)     64 M elements at 4.3 TB/s
//   x read three times, element by element     4 r + 8 r (L2) + 4 w            layer_norm 0.482 ms, rms_norm 0.371
//   a row in registers                         4 r + 4 w                       0.140 ms, 0.136 (floor 0.125)
//   rows beyond 8192                           4 r + 12 r (L2) + 4 w
// benchmarks/results/gpu_ops.json, H200, of 7c1f602 (2026-11-22) and 78c31097 (2026-11-24).
#include "deckle/kernels/cuda/norm/statistics.cuh"

namespace deckle::kernels::cuda {
namespace {

using namespace norm;

template <class S, int kThreads, int kItems>
__global__ void __launch_bounds__(Team<kThreads, typename S::T>::kBlock)
    forward(const __grid_constant__ Rows x, Weights w, Weights b, const __grid_constant__ Rows y, int64_t rows,
            const __grid_constant__ Kind kind) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  __shared__ typename Team<kThreads, T>::Shared shared;
  Team<kThreads, T> team(shared);
  const int64_t row = team.number(), start = row * kind.n;
  if (row >= rows) return;  // whole teams leave
  T values[kItems];
  const auto write = [&](int64_t first, T scale, T offset) {
    constexpr int kWidth = Part::kWidth;
#pragma unroll
    for (int v = 0; v < Part::kVectors; ++v) {
      const int64_t i = first + Part::place(v * kWidth);
      if (i >= kind.n) continue;
      T *const of = &values[v * kWidth], weight[kWidth];
#pragma unroll
      for (int k = 0; k < kWidth; ++k) of[k] = of[k] * scale + offset;
      if (w.data != nullptr) {
        S::load_any(w.data, w.dtype, i, weight);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) of[k] *= weight[k];
      }
      if (b.data != nullptr) {
        S::load_any(b.data, b.dtype, i, weight);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) of[k] += weight[k];
      }
      S::store(y, start, i, of);
    }
  };
  if constexpr (kThreads == 512) {
    if (kind.n > Part::kElements) {
      const Statistics<T> of = exact_statistics<S, kThreads>(x, start, kind);
      for (int64_t first = 0; first < kind.n; first += Part::kElements) {
        Part::load(x, start, first, kind.n, values, T(0));
#pragma unroll
        for (int k = 0; k < kItems; ++k) values[k] = of.distance(values[k]);
        write(first, of.scale, T(0));
      }
      return;
    }
  }
  Part::load(x, start, 0, kind.n, values, T(0));
  const Statistics<T> of = centre<S, kThreads, kItems>(team, x, start, kind, values);
  write(0, of.scale, of.offset);
}

void run(const Context& context, const View& self, const View& weight, const View& bias, double eps, const View& result,
         bool centred) {
  if (self.numel() == 0) return;
  const Matrix matrix(self);
  const Rows x = rows_of(self), y = rows_of(result);
  const Weights w(weight), b(bias);
  const deckle::cuda::DeviceGuard guard(context.device);
  const bool vectors =
      self.dtype == result.dtype && reduce::packed(x, matrix.n) && reduce::packed(y, matrix.n) && w.aligned() && b.aligned();
  reduce::for_tiles(vectors, self.dtype, matrix.n, [&](auto storage, auto shape) {
    constexpr int kBlock = Team<shape.kThreads, float>::kBlock;
    forward<decltype(storage), shape.kThreads, shape.kItems>
        <<<reduce::blocks_of(matrix.rows, kBlock / shape.kThreads), kBlock, 0, deckle::cuda::stream_handle(context.device)>>>(
            x, w, b, y, matrix.rows, Kind(matrix.n, eps, centred));
  });
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void rms_norm(const Context& context, const View& self, const View& weight, double eps, const View& result) {
  run(context, self, weight, {}, eps, result, false);
}
void layer_norm(const Context& context, const View& self, const View& weight, const View& bias, double eps, const View& result) {
  run(context, self, weight, bias, eps, result, true);
}

}  // namespace deckle::kernels::cuda
