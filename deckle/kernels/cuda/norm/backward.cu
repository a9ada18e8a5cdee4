// The derivatives of layer_norm and rms_norm over the last dim.                          x, g: [rows, n], contiguous; w, b: [n]
//   backward    dx = r (u - mean u - xh mean(u xh)), u = g w;  dw = sum over rows of g xh;  db = sum over rows of g
//   direction   dx with u = the direction
//
//   rung                                      bytes per element (float32)   64 M elements; floors are at 4.3 TB/s
//   rows, then columns, in two kernels        8 r + 4 w, then 8 r           floor 0.312 ms
//   one: a block walks over rows and keeps    8 r + 4 w + 3 % for parts     0.209 ms (floor 0.193); the next row's loads are
//   the sums of its columns                                                 in flight while this one is summed
//   double across threads, a division each    the same                      bound by arithmetic: bfloat16 took as long
//   one round of sums over threads a row      the same                      bfloat16 0.155 ms with three, one after another
//   rows that a warp holds                    the same                      warp_backward.cuh
// benchmarks/results/gpu_ops.json, layer_norm on an H200, of e479433 (2026-11-22) and 63bf1b5e (2026-11-24): 0.155 and 0.151.
// Sums over rows: float within 16 rows, double beyond, parts of blocks, whose number the shape decides, merged in order.
#include <algorithm>

#include "deckle/kernels/cuda/norm/merge.cuh"
#include "deckle/kernels/cuda/norm/warp_backward.cuh"

namespace deckle::kernels::cuda {
namespace {

using namespace norm;

/// Sums over rows of each column of a thread: [0] of g xh, [1] of g. kTogether rows in T, then in double in shared memory that
/// nobody else touches: [2][kItems][threads].
template <typename T, int kItems>
struct ColumnSums {
  static constexpr int kTogether = 16;

  T weight[kItems] = {}, bias[kItems] = {};
  double* const shared;
  const int threads;

  __device__ ColumnSums(double* memory, int count) : shared(memory + threadIdx.x), threads(count) {}
  __device__ void clear() {
    for (int k = 0; k < 2 * kItems; ++k) shared[k * threads] = 0;
  }
  __device__ void flush() {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      shared[k * threads] += static_cast<double>(weight[k]);
      shared[(kItems + k) * threads] += static_cast<double>(bias[k]);
      weight[k] = bias[k] = 0;
    }
  }
  __device__ double of_weight(int k) const { return shared[k * threads]; }
  __device__ double of_bias(int k) const { return shared[(kItems + k) * threads]; }
};

/// Rows blockIdx.x, blockIdx.x + gridDim.x, ...: dx, and the block's sums over its rows in parts[blockIdx.x][2][n], if wanted.
/// All blocks of the launch are to reside at once: 512 threads a multiprocessor, 128 registers each.
template <class S, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads, sizeof(typename S::T) == 8 ? 1 : 512 / kThreads)
    backward(const __grid_constant__ Rows g, const __grid_constant__ Rows x, Weights w, const __grid_constant__ Rows dx,
             typename S::T* parts, int64_t rows, const __grid_constant__ Kind kind) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  extern __shared__ double memory[];
  __shared__ typename Team<kThreads, T>::Shared shared;
  Team<kThreads, T> team(shared);
  ColumnSums<T, kItems> columns(memory, kThreads);
  if (parts != nullptr) columns.clear();
  const int64_t n = kind.n;
  T weight[kItems], gradient[kItems], values[kItems];
  typename S::Raw next_gradient[Part::kVectors], next_values[Part::kVectors];
  T next_first = 0;
  Part::load_weight(w.data, w.dtype, n, weight, T(1));
  const auto fetch = [&](int64_t row) {
    Part::fetch(g, row * n, n, next_gradient);
    Part::fetch(x, row * n, n, next_values);
    if (kind.centred) next_first = S::one(x, row * n, 0);
  };
  fetch(blockIdx.x);
  int together = 0;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    Part::decode(next_gradient, gradient);
    Part::decode(next_values, values);
    const T first = next_first;
    if (row + gridDim.x < rows) fetch(row + gridDim.x);
    T totals[2];
    const Statistics<T> of = centre_with<S, kThreads, kItems>(
        team, x, row * n, kind, first, [&](int k) { return gradient[k] * weight[k]; }, values, totals);
#pragma unroll
    for (int k = 0; k < kItems; ++k) values[k] = values[k] * of.scale + of.offset;
    if (parts != nullptr) {
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        columns.weight[k] += gradient[k] * values[k];
        columns.bias[k] += gradient[k];
      }
      if (++together == columns.kTogether) {
        columns.flush();
        together = 0;
      }
    }
    const T along = totals[0] * static_cast<T>(kind.inverse_n), rate = of.rate();
    const T plain = kind.centred ? totals[1] * static_cast<T>(kind.inverse_n) : T(0);
#pragma unroll
    for (int k = 0; k < kItems; ++k) gradient[k] = rate * ((gradient[k] * weight[k] - plain) - values[k] * along);
    Part::store(dx, row * n, 0, n, gradient);
  }
  if (parts == nullptr) return;
  columns.flush();
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int column = Part::place(k);
    if (column >= n) continue;
    parts[static_cast<int64_t>(blockIdx.x) * 2 * n + column] = static_cast<T>(columns.of_weight(k));
    parts[static_cast<int64_t>(blockIdx.x) * 2 * n + n + column] = static_cast<T>(columns.of_bias(k));
  }
}

/// Rows that no tile of the fused kernel holds: dx, and the statistics of each row for the sums over rows (`kept`, if given).
template <class S, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    long_backward(const __grid_constant__ Rows g, const __grid_constant__ Rows x, Weights w, const __grid_constant__ Rows dx,
                  Statistics<typename S::T>* kept, const __grid_constant__ Kind kind) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  __shared__ typename Team<kThreads, T>::Shared shared;
  Team<kThreads, T> team(shared);
  const int64_t row = blockIdx.x, n = kind.n, start = row * n;
  const Statistics<T> of = exact_statistics<S, kThreads>(x, start, kind);
  if (kept != nullptr && threadIdx.x == 0) kept[row] = of;
  T gradient[kItems], values[kItems];
  const auto load = [&](int64_t first) {
    Part::load(g, start, first, n, gradient, T(0));
    Part::load(x, start, first, n, values, T(0));
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      const int64_t i = first + Part::place(k);
      if (w.data != nullptr && i < n) gradient[k] *= pointwise::load<T>(w.data, w.dtype, i);
      values[k] = of.distance(values[k]) * of.scale;
    }
  };
  T totals[2] = {};
  for (int64_t first = 0; first < n; first += Part::kElements) {
    load(first);
    totals[0] += reduce::pairwise<kItems>([&](int k) { return gradient[k] * values[k]; });
    totals[1] += reduce::pairwise<kItems>([&](int k) { return gradient[k]; });
  }
  team.sums(totals);
  const T along = totals[0] * static_cast<T>(kind.inverse_n), rate = of.rate();
  const T plain = kind.centred ? totals[1] * static_cast<T>(kind.inverse_n) : T(0);
  for (int64_t first = 0; first < n; first += Part::kElements) {
    load(first);
#pragma unroll
    for (int k = 0; k < kItems; ++k) gradient[k] = rate * ((gradient[k] - plain) - values[k] * along);
    Part::store(dx, start, first, n, gradient);
  }
}

/// Of rows [part * each, (part + 1) * each): parts[part][0][column] of g xh, parts[part][1][column] of g.
template <typename T>
__global__ void __launch_bounds__(kColumns* kDepth)
    sums_over_rows(const __grid_constant__ Rows g, const __grid_constant__ Rows x, const Statistics<T>* kept, T* parts,
                   int64_t rows, int64_t n, int64_t each) {
  __shared__ double shared[2][kDepth][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x, part = blockIdx.y;
  double weight = 0, bias = 0;
  if (column < n) {
    const int64_t end = min((part + 1) * each, rows);
    for (int64_t row = part * each + threadIdx.y; row < end; row += kDepth) {
      const double gradient = g.get<T>(row * n, column);
      const Statistics<T> of = kept[row];
      weight += gradient * static_cast<double>(of.distance(x.get<T>(row * n, column)) * of.scale);
      bias += gradient;
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = weight;
  shared[1][threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.y > 1 || column >= n) return;
  double sum = 0;
  for (int y = 0; y < kDepth; ++y) sum += shared[threadIdx.y][y][threadIdx.x];
  parts[(part * 2 + threadIdx.y) * n + column] = static_cast<T>(sum);
}

/// blockIdx.y 0: the parts of the weight's gradient, 1: of the bias's.
template <typename T>
__global__ void __launch_bounds__(kColumns* kDepth)
    merge_sums(const T* parts, void* weight, DType weight_dtype, void* bias, DType bias_dtype, int64_t n, int64_t count) {
  void* const to = blockIdx.y == 0 ? weight : bias;
  if (to == nullptr) return;
  merge_columns(
      n, count, [&](int64_t part, int64_t column) { return parts[(part * 2 + blockIdx.y) * n + column]; },
      [&](double sum, int64_t column) { pointwise::store(sum, to, blockIdx.y == 0 ? weight_dtype : bias_dtype, column); });
}

struct Backward {
  const Context& context;
  Rows g, x, dx;
  Weights w;
  int64_t rows;
  Kind kind;
  View weight_gradient, bias_gradient;

  cudaStream_t stream() const { return deckle::cuda::stream_handle(context.device); }
  bool sums() const { return weight_gradient.data != nullptr || bias_gradient.data != nullptr; }

  template <typename T>
  void merge(const T* parts, int64_t count) const {
    merge_sums<<<dim3(reduce::blocks_of(kind.n, kColumns), 2), dim3(kColumns, kDepth), 0, stream()>>>(
        parts, weight_gradient.data, weight_gradient.dtype, bias_gradient.data, bias_gradient.dtype, kind.n, count);
  }

  template <class S, int kThreads, int kItems>
  void run_fused() const {
    using T = typename S::T;
    const size_t bytes = sums() ? 2 * kThreads * kItems * sizeof(double) : 0;
    if (bytes > 48 * 1024 && static_cast<int64_t>(bytes) + 1024 > shared_memory(context.device))
      return long_rows<reduce::Strided<T>>();
    // As many blocks as reside at once on a large GPU; each has a row and the next in flight.
    const int64_t count = std::clamp<int64_t>(std::min(rows, int64_t{65536} / kThreads), 1, 1024);
    const deckle::cuda::Block parts(sums() ? count * 2 * kind.n * static_cast<int64_t>(sizeof(T)) : 0, context.device);
    auto* const kernel = &backward<S, kThreads, kItems>;
    if (bytes > 48 * 1024)
      deckle::cuda::check_call(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
                               "a kernel");
    if (rows > 0) kernel<<<static_cast<unsigned>(count), kThreads, bytes, stream()>>>(g, x, w, dx, parts.as<T>(), rows, kind);
    if (sums()) merge(parts.as<T>(), rows > 0 ? count : 0);
  }

  template <class S>
  void long_rows() const {
    using T = typename S::T;
    const deckle::cuda::Block kept(sums() ? rows * static_cast<int64_t>(sizeof(Statistics<T>)) : 0, context.device);
    if (rows > 0)
      long_backward<S, 512, 8><<<static_cast<unsigned>(rows), 512, 0, stream()>>>(g, x, w, dx, kept.as<Statistics<T>>(), kind);
    if (!sums()) return;
    const int64_t blocks = std::max<int64_t>((kind.n + kColumns - 1) / kColumns, 1);
    const int64_t count = std::clamp<int64_t>(std::min(1024 / blocks, rows / 64), 1, 256);
    const deckle::cuda::Block parts(count * 2 * kind.n * static_cast<int64_t>(sizeof(T)), context.device);
    sums_over_rows<T><<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(count)), dim3(kColumns, kDepth), 0, stream()>>>(
        g, x, kept.as<Statistics<T>>(), parts.as<T>(), rows, kind.n, (rows + count - 1) / count);
    merge(parts.as<T>(), count);
  }

  /// Whether a warp held each row.
  bool warps() const {
    const int64_t count = Runs(rows).blocks;
    const deckle::cuda::Block parts(sums() ? count * 2 * kind.n * static_cast<int64_t>(sizeof(float)) : 0, context.device);
    if (!launch_warp_backward<false>(context, x.dtype, g, x, {}, w, dx, parts.as<float>(), rows, kind)) return false;
    if (sums()) merge(parts.as<float>(), count);
    return true;
  }

  /// Eight elements a thread, or 16 of halves: sums of columns fit beside a row and the next.
  template <class S>
  void vectors() const {
    constexpr int kItems = S::kWidth == 8 ? 16 : 8;
    if (warps()) return;
    if constexpr (S::kWidth == 2) {
      if (kind.n <= 32 * kItems) return run_fused<S, 32, kItems>();
      if (kind.n <= 64 * kItems) return run_fused<S, 64, kItems>();
    }
    if (kind.n <= 128 * kItems) return run_fused<S, 128, kItems>();
    if (kind.n <= 256 * kItems) return run_fused<S, 256, kItems>();
    if (kind.n <= 512 * kItems) return run_fused<S, 512, kItems>();
    long_rows<reduce::Strided<typename S::T>>();
  }
  template <class S>
  void single() const {
    if (kind.n <= 256) return run_fused<S, 32, 8>();
    if (kind.n <= 1024) return run_fused<S, 128, 8>();
    long_rows<S>();
  }
};

void run(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
         const View& self_gradient, const View& weight_gradient, const View& bias_gradient, bool centred) {
  const Matrix matrix(self);
  const int64_t n = matrix.n;
  if (n == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Backward backward{context,     rows_of(gradient),     rows_of(self),   rows_of(self_gradient), Weights(weight),
                          matrix.rows, Kind(n, eps, centred), weight_gradient, bias_gradient};
  if (gradient.dtype != self.dtype || self.dtype != self_gradient.dtype || !reduce::packed(backward.g, n) ||
      !reduce::packed(backward.x, n) || !reduce::packed(backward.dx, n) || !backward.w.aligned()) {
    if (self.dtype == DType::float64)
      backward.single<reduce::Strided<double>>();
    else
      backward.single<reduce::Strided<float>>();
  } else if (self.dtype == DType::float32) {
    backward.vectors<reduce::Packed<float>>();
  } else if (self.dtype == DType::bfloat16) {
    backward.vectors<reduce::Packed<__nv_bfloat16>>();
  } else if (self.dtype == DType::float16) {
    backward.vectors<reduce::Packed<__half>>();
  } else {
    backward.vectors<reduce::Packed<double>>();
  }
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void rms_norm_backward(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
                       const View& self_gradient, const View& weight_gradient) {
  run(context, gradient, self, weight, eps, self_gradient, weight_gradient, {}, false);
}
void rms_norm_direction(const Context& context, const View& direction, const View& self, double eps, const View& result) {
  run(context, direction, self, {}, eps, result, {}, {}, false);
}
void layer_norm_backward(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
                         const View& self_gradient, const View& weight_gradient, const View& bias_gradient) {
  run(context, gradient, self, weight, eps, self_gradient, weight_gradient, bias_gradient, true);
}
void layer_norm_direction(const Context& context, const View& direction, const View& self, double eps, const View& result) {
  run(context, direction, self, {}, eps, result, {}, {}, true);
}

}  // namespace deckle::kernels::cuda
