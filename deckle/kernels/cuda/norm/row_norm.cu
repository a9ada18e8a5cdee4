// layer_norm and rms_norm over the last dim, and their derivatives.                       x, g: [rows, n], contiguous; w, b: [n]
//   xh = (x - mean) r, r = 1 / sqrt(mean (x - mean)^2 + eps); of rms_norm the mean is taken to be 0
//   forward     y = xh w + b
//   backward    dx = r (u - mean u - xh mean(u xh)), u = g w;  dw = sum over rows of g xh;  db = sum over rows of g
//   direction   dx with u = the direction
// A mean is subtracted in two parts, and what its rounding left is found among the distances and subtracted too, so float
// arithmetic keeps the accuracy of the definition in double. Rows whose squares leave the range of T take that definition,
// scaled.
//
//   rung                                       bytes per element (float32)     64 M elements at 4.3 TB/s
//   x read three times, element by element     4 r + 8 r (L2) + 4 w            layer_norm 0.48 ms, rms_norm 0.37 measured (H200)
//   forward, a row in registers                4 r + 4 w                       0.125 ms, the floor
//   backward in two kernels                    8 r + 4 w, then 8 r             0.312 ms
//   backward fused: a block walks over rows    8 r + 4 w + 2 % for the parts   0.191 ms (floor 0.187); the next row's loads are
//     and keeps the sums of its columns                                       in flight while this one is summed
// Sums over rows: float within 16 rows, double beyond and across blocks, whose number the shape decides; merged in order.
#include "deckle/kernels/cuda/reduce/row_tile.cuh"

namespace deckle::kernels::cuda {
namespace {

using reduce::Rows;
using reduce::Team;
using reduce::Tile;

/// The rows of a contiguous matrix.
Rows rows_of(const View& view) {
  Rows rows;
  rows.data = static_cast<char*>(view.data);
  rows.dtype = view.dtype;
  rows.kept.count = 1;
  rows.kept.strides[0] = view.ndim > 0 ? view.sizes[view.ndim - 1] : 1;
  return rows;
}

struct Weights {
  const char* data = nullptr;
  DType dtype = DType::float32;

  Weights() = default;
  explicit Weights(const View& view) : data(static_cast<const char*>(view.data)), dtype(view.dtype) {}
};

/// xh = scale ((unit x - high) - low), unit a power of two; of a row in registers d = (unit x - high) - low is kept.
template <typename T>
struct Statistics {
  T high = 0, low = 0, scale = 0, unit = 1;

  __device__ T distance(T x) const { return (unit * x - high) - low; }
  /// Of xh with respect to x.
  __device__ T rate() const { return scale * unit; }
};

/// Squares of distances that T adds up without losing them.
template <typename T>
__device__ bool ordinary(double squares) {
  return sizeof(T) == 8 ? squares > 1e-250 && squares < 1e250 : squares > 1e-25 && squares < 1e30;
}

/// The definition, in double, element by element, scaled so that the largest element is between 2 and 4.
template <class S, int kThreads>
__device__ __noinline__ Statistics<typename S::T> exact_statistics(Team<kThreads>& team, const Rows& x, int64_t start, int64_t n,
                                                                   double eps, bool centred) {
  using T = typename S::T;
  double largest = 0, mean = 0, squares = 0;
  for (int64_t i = team.lane(); i < n; i += kThreads) {
    const double size = ::fabs(static_cast<double>(S::one(x, start, i)));
    largest = size > largest ? size : largest;
  }
  largest = team.max(largest);
  const bool scaled = largest > 0 && largest < std::numeric_limits<double>::infinity();
  const double unit = scaled ? ::scalbn(1.0, 1 - ::ilogb(largest)) : 1;
  if (centred) {
    for (int64_t i = team.lane(); i < n; i += kThreads) mean += unit * static_cast<double>(S::one(x, start, i));
    mean = team.sum(mean) / static_cast<double>(n);
  }
  for (int64_t i = team.lane(); i < n; i += kThreads) {
    const double distance = unit * static_cast<double>(S::one(x, start, i)) - mean;
    squares += distance * distance;
  }
  const double scale = 1 / ::sqrt(team.sum(squares) / static_cast<double>(n) + unit * unit * eps);
  const T high = static_cast<T>(mean);
  return {high, static_cast<T>(mean - static_cast<double>(high)), static_cast<T>(scale), static_cast<T>(unit)};
}

/// Of a row in registers, whose elements become their distances from the mean.
template <class S, int kThreads, int kItems>
__device__ Statistics<typename S::T> centre(Team<kThreads>& team, const Rows& rows, int64_t start, int64_t n,
                                            typename S::T (&x)[kItems], double eps, bool centred) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  Statistics<T> of;
  double squares, rest = 0;
  if (centred) {
    const double mean = team.sum(reduce::pairwise<kItems>([&](int k) { return x[k]; })) / static_cast<double>(n);
    of.high = static_cast<T>(mean);
    of.low = static_cast<T>(mean - static_cast<double>(of.high));
#pragma unroll
    for (int k = 0; k < kItems; ++k) x[k] = Part::place(k) < n ? of.distance(x[k]) : T(0);
    double sums[2] = {reduce::pairwise<kItems>([&](int k) { return x[k]; }),
                      reduce::pairwise<kItems>([&](int k) { return x[k] * x[k]; })};
    team.sums(sums);
    rest = sums[0] / static_cast<double>(n);
    squares = sums[1] - rest * sums[0];
  } else {
    squares = team.sum(reduce::pairwise<kItems>([&](int k) { return x[k] * x[k]; }));
  }
  if (ordinary<T>(squares)) {
    of.scale = static_cast<T>(1 / ::sqrt(squares / static_cast<double>(n) + eps));
    const T shift = static_cast<T>(rest);
    of.low += shift;
#pragma unroll
    for (int k = 0; k < kItems; ++k) x[k] = Part::place(k) < n ? x[k] - shift : T(0);
    return of;
  }
  of = exact_statistics<S>(team, rows, start, n, eps, centred);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int at = Part::place(k);
    x[k] = at < n ? of.distance(S::one(rows, start, at)) : T(0);
  }
  return of;
}

template <class S, int kThreads, int kItems>
__global__ void __launch_bounds__(Team<kThreads>::kBlock)
    forward(const __grid_constant__ Rows x, Weights w, Weights b, const __grid_constant__ Rows y, int64_t rows, int64_t n,
            double eps, bool centred) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  __shared__ typename Team<kThreads>::Shared shared;
  Team<kThreads> team(shared);
  const int64_t row = team.number(), start = row * n;
  if (row >= rows) return;  // whole teams leave
  T values[kItems];
  const auto write = [&](int64_t first, T scale) {
    constexpr int kWidth = Part::kWidth;
#pragma unroll
    for (int v = 0; v < Part::kVectors; ++v) {
      const int64_t i = first + Part::place(v * kWidth);
      if (i >= n) continue;
      T *const of = &values[v * kWidth], weight[kWidth];
#pragma unroll
      for (int k = 0; k < kWidth; ++k) of[k] *= scale;
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
    if (n > Part::kElements) {
      const Statistics<T> of = exact_statistics<S>(team, x, start, n, eps, centred);
      for (int64_t first = 0; first < n; first += Part::kElements) {
        Part::load(x, start, first, n, values, T(0));
#pragma unroll
        for (int k = 0; k < kItems; ++k) values[k] = of.distance(values[k]);
        write(first, of.scale);
      }
      return;
    }
  }
  Part::load(x, start, 0, n, values, T(0));
  const Statistics<T> of = centre<S, kThreads, kItems>(team, x, start, n, values, eps, centred);
  write(0, of.scale);
}

/// What a block adds up over its rows, for each of its columns: sums[0] of g xh, sums[1] of g.
template <typename T, int kItems>
struct ColumnSums {
  static constexpr int kTogether = 16;  // rows added up in T

  T weight[kItems] = {}, bias[kItems] = {};

  /// sums: [2][kItems][threads], a thread's alone.
  __device__ void flush(double* sums, int threads) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      sums[k * threads] += static_cast<double>(weight[k]);
      sums[(kItems + k) * threads] += static_cast<double>(bias[k]);
      weight[k] = bias[k] = 0;
    }
  }
};

/// Rows blockIdx.x, blockIdx.x + gridDim.x, ...: dx, and the block's sums over its rows in parts[blockIdx.x][2][n], if wanted.
template <class S, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    backward(const __grid_constant__ Rows g, const __grid_constant__ Rows x, Weights w, const __grid_constant__ Rows dx,
             double* parts, int64_t rows, int64_t n, double eps, bool centred) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  extern __shared__ double memory[];  // [2][kItems][kThreads]
  __shared__ typename Team<kThreads>::Shared shared;
  Team<kThreads> team(shared);
  double* const sums = memory + threadIdx.x;
  if (parts != nullptr) {
    for (int k = 0; k < 2 * kItems; ++k) sums[k * kThreads] = 0;
  }
  ColumnSums<T, kItems> columns;
  T weight[kItems], gradient[kItems], values[kItems], next_gradient[kItems], next_values[kItems];
  Part::load_weight(w.data, w.dtype, n, weight, T(1));
  const auto load = [&](int64_t row) {
    Part::load(g, row * n, 0, n, next_gradient, T(0));
    Part::load(x, row * n, 0, n, next_values, T(0));
  };
  load(blockIdx.x);
  int together = 0;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      gradient[k] = next_gradient[k];
      values[k] = next_values[k];
    }
    if (row + gridDim.x < rows) load(row + gridDim.x);
    const Statistics<T> of = centre<S, kThreads, kItems>(team, x, row * n, n, values, eps, centred);
    if (parts != nullptr) {
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        columns.weight[k] += gradient[k] * (values[k] * of.scale);
        columns.bias[k] += gradient[k];
      }
      if (++together == columns.kTogether) {
        columns.flush(sums, kThreads);
        together = 0;
      }
    }
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      gradient[k] *= weight[k];
      values[k] *= of.scale;
    }
    double totals[2] = {reduce::pairwise<kItems>([&](int k) { return gradient[k] * values[k]; }),
                        reduce::pairwise<kItems>([&](int k) { return gradient[k]; })};
    team.sums(totals);
    const T along = static_cast<T>(totals[0] / static_cast<double>(n)), rate = of.rate();
    const T plain = centred ? static_cast<T>(totals[1] / static_cast<double>(n)) : T(0);
#pragma unroll
    for (int k = 0; k < kItems; ++k) gradient[k] = rate * ((gradient[k] - plain) - values[k] * along);
    Part::store(dx, row * n, 0, n, gradient);
  }
  if (parts == nullptr) return;
  columns.flush(sums, kThreads);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int column = Part::place(k);
    if (column >= n) continue;
    parts[static_cast<int64_t>(blockIdx.x) * 2 * n + column] = sums[k * kThreads];
    parts[static_cast<int64_t>(blockIdx.x) * 2 * n + n + column] = sums[(kItems + k) * kThreads];
  }
}

/// Rows that no tile of the fused kernel holds: dx, and the statistics of each row for the sums over rows (`kept`, if given).
template <class S, int kThreads, int kItems>
__global__ void __launch_bounds__(kThreads)
    long_backward(const __grid_constant__ Rows g, const __grid_constant__ Rows x, Weights w, const __grid_constant__ Rows dx,
                  Statistics<typename S::T>* kept, int64_t n, double eps, bool centred) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  __shared__ typename Team<kThreads>::Shared shared;
  Team<kThreads> team(shared);
  const int64_t row = blockIdx.x, start = row * n;
  const Statistics<T> of = exact_statistics<S>(team, x, start, n, eps, centred);
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
  double totals[2] = {};
  for (int64_t first = 0; first < n; first += Part::kElements) {
    load(first);
    totals[0] += reduce::pairwise<kItems>([&](int k) { return gradient[k] * values[k]; });
    totals[1] += reduce::pairwise<kItems>([&](int k) { return gradient[k]; });
  }
  team.sums(totals);
  const T along = static_cast<T>(totals[0] / static_cast<double>(n)), rate = of.rate();
  const T plain = centred ? static_cast<T>(totals[1] / static_cast<double>(n)) : T(0);
  for (int64_t first = 0; first < n; first += Part::kElements) {
    load(first);
#pragma unroll
    for (int k = 0; k < kItems; ++k) gradient[k] = rate * ((gradient[k] - plain) - values[k] * along);
    Part::store(dx, start, first, n, gradient);
  }
}

constexpr int kColumns = 32, kDepth = 32;

/// Of rows [part * each, (part + 1) * each): parts[part][0][column] of g xh, parts[part][1][column] of g.
template <typename T>
__global__ void __launch_bounds__(kColumns* kDepth)
    sums_over_rows(const __grid_constant__ Rows g, const __grid_constant__ Rows x, const Statistics<T>* kept, double* parts,
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
  parts[(part * 2 + threadIdx.y) * n + column] = sum;
}

/// blockIdx.y 0: the parts of the weight's gradient, 1: of the bias's.
__global__ void __launch_bounds__(kColumns* kDepth)
    merge_sums(const double* parts, void* weight, DType weight_dtype, void* bias, DType bias_dtype, int64_t n, int64_t count) {
  __shared__ double shared[kDepth][kColumns];
  void* const to = blockIdx.y == 0 ? weight : bias;
  if (to == nullptr) return;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  double sum = 0;
  if (column < n) {
#pragma unroll 4
    for (int64_t part = threadIdx.y; part < count; part += kDepth) sum += parts[(part * 2 + blockIdx.y) * n + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= n) return;
  for (int y = 1; y < kDepth; ++y) sum += shared[y][threadIdx.x];
  pointwise::store(sum, to, blockIdx.y == 0 ? weight_dtype : bias_dtype, column);
}

struct Matrix {
  int64_t rows = 1, n;
  explicit Matrix(const View& view) : n(view.sizes[view.ndim - 1]) {
    for (int dim = 0; dim + 1 < view.ndim; ++dim) rows *= view.sizes[dim];
  }
};

void run_forward(const Context& context, const View& self, const View& weight, const View& bias, double eps, const View& result,
                 bool centred) {
  if (self.numel() == 0) return;
  const Matrix matrix(self);
  const Rows x = rows_of(self), y = rows_of(result);
  const deckle::cuda::DeviceGuard guard(context.device);
  const bool vectors = self.dtype == result.dtype && reduce::packed(x, matrix.n) && reduce::packed(y, matrix.n) &&
                       reinterpret_cast<uintptr_t>(weight.data) % 16 == 0 && reinterpret_cast<uintptr_t>(bias.data) % 16 == 0;
  reduce::for_tiles(vectors, self.dtype, matrix.n, [&](auto storage, auto shape) {
    using Its = Team<shape.kThreads>;
    forward<decltype(storage), shape.kThreads, shape.kItems><<<reduce::blocks_of(matrix.rows, Its::kBlock / shape.kThreads),
                                                               Its::kBlock, 0, deckle::cuda::stream_handle(context.device)>>>(
        x, Weights(weight), Weights(bias), y, matrix.rows, matrix.n, eps, centred);
  });
  deckle::cuda::check_launch(context.device);
}

/// The fused kernels' shapes: eight elements a thread, so that sums of columns fit beside a row and the next.
template <typename S, typename Launch>
bool for_fused(int64_t n, const Launch& launch) {
  bool done = false;
  const auto with = [&](auto shape) {
    if (done || n > shape.kThreads * shape.kItems) return;
    done = true;
    launch(S(), shape);
  };
  with(reduce::Shape<32, 8>());
  with(reduce::Shape<64, 8>());
  with(reduce::Shape<128, 8>());
  if constexpr (S::kWidth > 1) {
    with(reduce::Shape<256, 8>());
    with(reduce::Shape<512, 8>());
  }
  return done;
}

template <typename Launch>
bool for_fused(bool vectors, DType dtype, int64_t n, const Launch& launch) {
  if (!vectors)
    return dtype == DType::float64 ? for_fused<reduce::Strided<double>>(n, launch) : for_fused<reduce::Strided<float>>(n, launch);
  if (dtype == DType::float32) return for_fused<reduce::Packed<float>>(n, launch);
  if (dtype == DType::bfloat16) return for_fused<reduce::Packed<__nv_bfloat16>>(n, launch);
  if (dtype == DType::float16) return for_fused<reduce::Packed<__half>>(n, launch);
  return for_fused<reduce::Packed<double>>(n, launch);
}

struct Backward {
  const Context& context;
  Rows g, x, dx;
  Weights w;
  Matrix matrix;
  double eps;
  bool centred, vectors;
  View weight_gradient, bias_gradient;

  bool sums() const { return weight_gradient.data != nullptr || bias_gradient.data != nullptr; }

  void merge(const double* parts, int64_t count) const {
    merge_sums<<<dim3(reduce::blocks_of(matrix.n, kColumns), 2), dim3(kColumns, kDepth), 0,
                 deckle::cuda::stream_handle(context.device)>>>(parts, weight_gradient.data, weight_gradient.dtype,
                                                                bias_gradient.data, bias_gradient.dtype, matrix.n, count);
  }

  bool fused() const {
    return for_fused(vectors, x.dtype, matrix.n, [&](auto storage, auto shape) {
      // As many blocks as reside at once on a large GPU; each has a row and the next in flight.
      const int64_t count = std::clamp<int64_t>(std::min(matrix.rows, int64_t{131072} / shape.kThreads), 1, 2048);
      const deckle::cuda::Block parts(sums() ? count * 2 * matrix.n * static_cast<int64_t>(sizeof(double)) : 0, context.device);
      const size_t bytes = sums() ? 2 * shape.kThreads * shape.kItems * sizeof(double) : 0;
      auto* const kernel = &backward<decltype(storage), shape.kThreads, shape.kItems>;
      if (bytes > 48 * 1024)
        deckle::cuda::check_call(
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), "a kernel");
      if (matrix.rows > 0)
        kernel<<<static_cast<unsigned>(count), shape.kThreads, bytes, deckle::cuda::stream_handle(context.device)>>>(
            g, x, w, dx, parts.as<double>(), matrix.rows, matrix.n, eps, centred);
      if (sums()) merge(parts.as<double>(), matrix.rows > 0 ? count : 0);
    });
  }

  template <class S>
  void long_rows() const {
    using T = typename S::T;
    const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
    const deckle::cuda::Block kept(sums() ? matrix.rows * static_cast<int64_t>(sizeof(Statistics<T>)) : 0, context.device);
    if (matrix.rows > 0)
      long_backward<S, 512, 8>
          <<<static_cast<unsigned>(matrix.rows), 512, 0, stream>>>(g, x, w, dx, kept.as<Statistics<T>>(), matrix.n, eps, centred);
    if (!sums()) return;
    const int64_t blocks = (matrix.n + kColumns - 1) / kColumns;
    const int64_t count = std::clamp<int64_t>(std::min(1024 / blocks, matrix.rows / 64), 1, 256);
    const int64_t each = (matrix.rows + count - 1) / count;
    const deckle::cuda::Block parts(count * 2 * matrix.n * static_cast<int64_t>(sizeof(double)), context.device);
    sums_over_rows<T><<<dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(count)), dim3(kColumns, kDepth), 0, stream>>>(
        g, x, kept.as<Statistics<T>>(), parts.as<double>(), matrix.rows, matrix.n, each);
    merge(parts.as<double>(), count);
  }
};

void run_backward(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
                  const View& self_gradient, const View& weight_gradient, const View& bias_gradient, bool centred) {
  if (self.sizes[self.ndim - 1] == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  Backward run{context, rows_of(gradient), rows_of(self), rows_of(self_gradient), Weights(weight), Matrix(self),
               eps,     centred,           false,         weight_gradient,        bias_gradient};
  const int64_t n = run.matrix.n;
  run.vectors = gradient.dtype == self.dtype && self.dtype == self_gradient.dtype && reduce::packed(run.g, n) &&
                reduce::packed(run.x, n) && reduce::packed(run.dx, n) && reinterpret_cast<uintptr_t>(weight.data) % 16 == 0;
  if (!run.fused()) {
    if (self.dtype == DType::float64)
      run.long_rows<reduce::Strided<double>>();
    else
      run.long_rows<reduce::Strided<float>>();
  }
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void rms_norm(const Context& context, const View& self, const View& weight, double eps, const View& result) {
  run_forward(context, self, weight, {}, eps, result, false);
}
void rms_norm_backward(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
                       const View& self_gradient, const View& weight_gradient) {
  run_backward(context, gradient, self, weight, eps, self_gradient, weight_gradient, {}, false);
}
void rms_norm_direction(const Context& context, const View& direction, const View& self, double eps, const View& result) {
  run_backward(context, direction, self, {}, eps, result, {}, {}, false);
}
void layer_norm(const Context& context, const View& self, const View& weight, const View& bias, double eps, const View& result) {
  run_forward(context, self, weight, bias, eps, result, true);
}
void layer_norm_backward(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
                         const View& self_gradient, const View& weight_gradient, const View& bias_gradient) {
  run_backward(context, gradient, self, weight, eps, self_gradient, weight_gradient, bias_gradient, true);
}
void layer_norm_direction(const Context& context, const View& direction, const View& self, double eps, const View& result) {
  run_backward(context, direction, self, {}, eps, result, {}, {}, true);
}

}  // namespace deckle::kernels::cuda
