// layer_norm and rms_norm over the last dim, and their derivatives.                       x, g: [rows, n], contiguous; w, b: [n]
//   xh = (x - mean) r, r = 1 / sqrt(mean (x - mean)^2 + eps); of rms_norm the mean is taken to be 0
//   forward     y = xh w + b
//   backward    dx = r (u - mean u - xh mean(u xh)), u = g w;  dw = sum over rows of g xh;  db = sum over rows of g
//   direction   dx with u = the direction
// Statistics of a row are double; a row is read up to three times, mostly from a cache. The sums over rows go in parts, whose
// number the shape decides, merged in order.
#include "deckle/kernels/cuda/reduce/rows.cuh"

namespace deckle::kernels::cuda {
namespace {

using reduce::Group;

struct Matrix {
  char* data = nullptr;
  DType dtype = DType::float32;

  Matrix() = default;
  explicit Matrix(const View& view) : data(static_cast<char*>(view.data)), dtype(view.dtype) {}
  template <typename T>
  __device__ T get(int64_t at) const {
    return pointwise::load<T>(data, dtype, at);
  }
  template <typename T>
  __device__ void put(T value, int64_t at) const {
    pointwise::store<T>(value, data, dtype, at);
  }
};

struct Statistics {
  double mean, scale;
};

template <typename T, bool kCentred, int kThreads>
__device__ Statistics statistics(const Group<kThreads>& group, const Matrix& x, int64_t start, int64_t n, double eps) {
  double mean = 0, squares = 0;
  if constexpr (kCentred) {
    for (int64_t i = group.lane(); i < n; i += kThreads) mean += x.get<T>(start + i);
    mean = group.sum(mean) / static_cast<double>(n);
  }
  for (int64_t i = group.lane(); i < n; i += kThreads) {
    const double distance = x.get<T>(start + i) - mean;
    squares += distance * distance;
  }
  return {mean, 1 / ::sqrt(group.sum(squares) / static_cast<double>(n) + eps)};
}

template <typename T, bool kCentred, int kThreads>
__global__ void __launch_bounds__(256) forward(Matrix x, Matrix w, Matrix b, Matrix y, int64_t rows, int64_t n, double eps) {
  __shared__ double shared[256];
  const Group<kThreads> group{shared};
  const int64_t row = group.number(), start = row * n;
  if (row >= rows) return;
  const Statistics of = statistics<T, kCentred>(group, x, start, n, eps);
  const T scale = static_cast<T>(of.scale);
  for (int64_t i = group.lane(); i < n; i += kThreads) {
    T value = static_cast<T>(x.get<T>(start + i) - of.mean) * scale;
    if (w.data != nullptr) value *= w.get<T>(i);
    if (b.data != nullptr) value += b.get<T>(i);
    y.put<T>(value, start + i);
  }
}

/// dx, and the statistics of each row for the sums over rows (`kept`, if given).
template <typename T, bool kCentred, int kThreads>
__global__ void __launch_bounds__(256)
    backward(Matrix g, Matrix x, Matrix w, Matrix dx, Statistics* kept, int64_t rows, int64_t n, double eps) {
  __shared__ double shared[256];
  const Group<kThreads> group{shared};
  const int64_t row = group.number(), start = row * n;
  if (row >= rows) return;
  const Statistics of = statistics<T, kCentred>(group, x, start, n, eps);
  if (kept != nullptr && group.lane() == 0) kept[row] = of;
  double plain = 0, along = 0;
  for (int64_t i = group.lane(); i < n; i += kThreads) {
    double u = g.get<T>(start + i);
    if (w.data != nullptr) u *= w.get<T>(i);
    plain += u;
    along += u * ((x.get<T>(start + i) - of.mean) * of.scale);
  }
  plain = kCentred ? group.sum(plain) / static_cast<double>(n) : 0;
  along = group.sum(along) / static_cast<double>(n);
  for (int64_t i = group.lane(); i < n; i += kThreads) {
    double u = g.get<T>(start + i);
    if (w.data != nullptr) u *= w.get<T>(i);
    const double xh = (x.get<T>(start + i) - of.mean) * of.scale;
    dx.put<T>(static_cast<T>(of.scale * (u - plain - xh * along)), start + i);
  }
}

constexpr int kColumns = 32, kDepth = 8;

/// Of rows [part * each, (part + 1) * each): sums[part][0][column] of g xh, sums[part][1][column] of g.
template <typename T>
__global__ void __launch_bounds__(256)
    sums_over_rows(Matrix g, Matrix x, const Statistics* kept, double* sums, int64_t rows, int64_t n, int64_t each) {
  __shared__ double shared[2][kDepth][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x, part = blockIdx.y;
  double weight = 0, bias = 0;
  if (column < n) {
    const int64_t end = min((part + 1) * each, rows);
    for (int64_t row = part * each + threadIdx.y; row < end; row += kDepth) {
      const double gradient = g.get<T>(row * n + column);
      const Statistics of = kept[row];
      weight += gradient * ((x.get<T>(row * n + column) - of.mean) * of.scale);
      bias += gradient;
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = weight;
  shared[1][threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.y > 1 || column >= n) return;
  double sum = 0;
  for (int y = 0; y < kDepth; ++y) sum += shared[threadIdx.y][y][threadIdx.x];
  sums[(part * 2 + threadIdx.y) * n + column] = sum;
}

__global__ void __launch_bounds__(256) merge_sums(const double* sums, Matrix weight, Matrix bias, int64_t n, int64_t parts) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (column >= n) return;
  double of_weight = 0, of_bias = 0;
  for (int64_t part = 0; part < parts; ++part) {
    of_weight += sums[part * 2 * n + column];
    of_bias += sums[(part * 2 + 1) * n + column];
  }
  if (weight.data != nullptr) weight.put(of_weight, column);
  if (bias.data != nullptr) bias.put(of_bias, column);
}

struct Shape {
  int64_t rows, n;
  explicit Shape(const View& view) : rows(1), n(view.sizes[view.ndim - 1]) {
    for (int dim = 0; dim + 1 < view.ndim; ++dim) rows *= view.sizes[dim];
  }
};

template <bool kCentred>
void run_forward(const Context& context, const View& self, const View& weight, const View& bias, double eps, const View& result) {
  const Shape shape(self);
  if (self.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  reduce::for_rows(self.dtype, shape.rows, shape.n, [&](auto type, auto threads, unsigned blocks) {
    forward<decltype(type), kCentred, threads.value><<<blocks, 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Matrix(self), Matrix(weight), Matrix(bias), Matrix(result), shape.rows, shape.n, eps);
  });
  deckle::cuda::check_launch(context.device);
}

template <bool kCentred>
void run_backward(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
                  const View& self_gradient, const View& weight_gradient, const View& bias_gradient) {
  const Shape shape(self);
  if (shape.n == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const bool sums = weight_gradient.data != nullptr || bias_gradient.data != nullptr;
  const deckle::cuda::Block kept(sums ? shape.rows * static_cast<int64_t>(sizeof(Statistics)) : 0, context.device);
  if (shape.rows > 0) {
    reduce::for_rows(self.dtype, shape.rows, shape.n, [&](auto type, auto threads, unsigned blocks) {
      backward<decltype(type), kCentred, threads.value><<<blocks, 256, 0, stream>>>(
          Matrix(gradient), Matrix(self), Matrix(weight), Matrix(self_gradient), kept.as<Statistics>(), shape.rows, shape.n, eps);
    });
  }
  if (sums) {
    const int64_t blocks = (shape.n + kColumns - 1) / kColumns;
    const int64_t parts = std::clamp<int64_t>(std::min(1024 / blocks, shape.rows / 64), 1, 256);
    const int64_t each = (shape.rows + parts - 1) / parts;
    const deckle::cuda::Block memory(parts * 2 * shape.n * static_cast<int64_t>(sizeof(double)), context.device);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(parts)), block(kColumns, kDepth);
    if (self.dtype == DType::float64)
      sums_over_rows<double><<<grid, block, 0, stream>>>(Matrix(gradient), Matrix(self), kept.as<Statistics>(),
                                                         memory.as<double>(), shape.rows, shape.n, each);
    else
      sums_over_rows<float><<<grid, block, 0, stream>>>(Matrix(gradient), Matrix(self), kept.as<Statistics>(),
                                                        memory.as<double>(), shape.rows, shape.n, each);
    merge_sums<<<reduce::blocks_of(shape.n, 256), 256, 0, stream>>>(memory.as<double>(), Matrix(weight_gradient),
                                                                    Matrix(bias_gradient), shape.n, parts);
  }
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void rms_norm(const Context& context, const View& self, const View& weight, double eps, const View& result) {
  run_forward<false>(context, self, weight, {}, eps, result);
}
void rms_norm_backward(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
                       const View& self_gradient, const View& weight_gradient) {
  run_backward<false>(context, gradient, self, weight, eps, self_gradient, weight_gradient, {});
}
void rms_norm_direction(const Context& context, const View& direction, const View& self, double eps, const View& result) {
  run_backward<false>(context, direction, self, {}, eps, result, {}, {});
}
void layer_norm(const Context& context, const View& self, const View& weight, const View& bias, double eps, const View& result) {
  run_forward<true>(context, self, weight, bias, eps, result);
}
void layer_norm_backward(const Context& context, const View& gradient, const View& self, const View& weight, double eps,
                         const View& self_gradient, const View& weight_gradient, const View& bias_gradient) {
  run_backward<true>(context, gradient, self, weight, eps, self_gradient, weight_gradient, bias_gradient);
}
void layer_norm_direction(const Context& context, const View& direction, const View& self, double eps, const View& result) {
  run_backward<true>(context, direction, self, {}, eps, result, {}, {});
}

}  // namespace deckle::kernels::cuda
