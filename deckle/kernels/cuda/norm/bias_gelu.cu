// gelu of the sum of rows and a bias, and its derivatives.                               x, g: [rows, n], contiguous; b: [n]
//   forward     y = gelu(x + b)
//   backward    dx = g gelu'(x + b), and the sums over rows of it
//
//   rung                                  bytes per element   [29646, 3072] bfloat16 at 4.1 TB/s, computed
//   gelu's gradient, then sums of columns   8 (2 r 1 w 1 r)     0.178 ms
//   one kernel                              6                   0.133 ms
// A thread has a vector of columns and walks over rows, some of them in flight; its sums are in float over 16 rows, then in
// double, and the parts of blocks, whose number the shape decides, are merged in order.
#include <algorithm>

#include "deckle/kernels/cuda/norm/merge.cuh"
#include "deckle/kernels/cuda/pointwise/normal.cuh"
#include "deckle/kernels/cuda/reduce/row_tile.cuh"

namespace deckle::kernels::cuda {
namespace {

template <typename E>
__device__ __forceinline__ float normal_cdf_of(float x) {
  if constexpr (sizeof(E) == 2)
    return detail::narrow_normal_cdf(x);
  else
    return detail::normal_cdf(x);
}

/// The derivative of x cdf(x). Where the density is 0, infinity is not asked for its product.
template <typename E>
__device__ __forceinline__ float gelu_slope_of(float x) {
  if constexpr (sizeof(E) == 2) return detail::narrow_gelu_slope(x);
  const float density = 0.39894228f * exp2f(-0.72134752f * x * x);
  return normal_cdf_of<E>(x) + (density == 0 ? 0.0f : x * density);
}

constexpr int kMostThreads = 384;  // of a block

/// How the threads of a grid cover a matrix of `vectors` a row: all of a row in a block where that is possible.
struct Cover {
  dim3 block, grid;
  int64_t parts;  // of rows
  Cover(int64_t rows, int64_t vectors) {
    const int64_t across = vectors <= kMostThreads ? (vectors + 31) / 32 * 32 : 256, down = std::max<int64_t>(1, 256 / across);
    const int64_t resident = 132 * std::max<int64_t>(1, 768 / (across * down)), columns = (vectors + across - 1) / across;
    const int64_t count = std::clamp<int64_t>(rows / (down * 8), 1, std::max<int64_t>(1, resident / columns));
    block = dim3(static_cast<unsigned>(across), static_cast<unsigned>(down));
    grid = dim3(static_cast<unsigned>(count), static_cast<unsigned>(columns));
    parts = count * down;
  }
};

template <typename E>
__global__ void __launch_bounds__(kMostThreads, 2) forward(const E* x, const E* b, E* y, int64_t rows, int64_t n) {
  using S = reduce::Packed<E>;
  constexpr int kWidth = S::kWidth, kFlight = 4;
  using Raw = typename S::Raw;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kWidth;
  if (column >= n) return;
  float bias[kWidth];
  S::decode(*reinterpret_cast<const Raw*>(b + column), bias);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  reduce::Rows to;
  to.data = reinterpret_cast<char*>(y);
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows; row += step * kFlight) {
    Raw raw[kFlight];
#pragma unroll
    for (int u = 0; u < kFlight; ++u)
      if (row + u * step < rows) raw[u] = *reinterpret_cast<const Raw*>(x + (row + u * step) * n + column);
#pragma unroll
    for (int u = 0; u < kFlight; ++u) {
      if (row + u * step >= rows) break;
      float values[kWidth];
      S::decode(raw[u], values);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const float z = values[k] + bias[k];
        values[k] = z * normal_cdf_of<E>(z);
      }
      S::store(to, (row + u * step) * n, column, values);
    }
  }
}

/// parts[part][n], a part for each row of threads.
template <typename E>
__global__ void __launch_bounds__(kMostThreads, 2)
    backward(const E* g, const E* x, const E* b, E* dx, float* parts, int64_t rows, int64_t n) {
  using S = reduce::Packed<E>;
  constexpr int kWidth = S::kWidth, kFlight = 2, kTogether = 8;  // batches of rows
  using Raw = typename S::Raw;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kWidth;
  if (column >= n) return;
  float bias[kWidth], few[kWidth] = {};
  __shared__ double sums[kWidth][kMostThreads];  // of each thread its own
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) sums[k][thread] = 0;
  S::decode(*reinterpret_cast<const Raw*>(b + column), bias);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y,
                part = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  reduce::Rows to;
  to.data = reinterpret_cast<char*>(dx);
  int together = 0;
  for (int64_t row = part; row < rows; row += step * kFlight) {
    Raw gradients[kFlight], raw[kFlight];
#pragma unroll
    for (int u = 0; u < kFlight; ++u) {
      if (row + u * step >= rows) continue;
      gradients[u] = *reinterpret_cast<const Raw*>(g + (row + u * step) * n + column);
      raw[u] = *reinterpret_cast<const Raw*>(x + (row + u * step) * n + column);
    }
#pragma unroll
    for (int u = 0; u < kFlight; ++u) {
      if (row + u * step >= rows) break;
      float values[kWidth], gradient[kWidth];
      S::decode(raw[u], values);
      S::decode(gradients[u], gradient);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        values[k] = gradient[k] * gelu_slope_of<E>(values[k] + bias[k]);
        few[k] += values[k];
      }
      S::store(to, (row + u * step) * n, column, values);
    }
    if (++together == kTogether) {
      together = 0;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        sums[k][thread] += static_cast<double>(few[k]);
        few[k] = 0;
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kWidth; ++k)
    parts[part * n + column + k] = static_cast<float>(sums[k][thread] + static_cast<double>(few[k]));
}

__global__ void __launch_bounds__(kColumns* kDepth)
    merge_parts(const float* parts, void* sums, DType dtype, int64_t n, int64_t count) {
  merge_columns(
      n, count, [&](int64_t part, int64_t column) { return parts[part * n + column]; },
      [&](double sum, int64_t column) { pointwise::store(sum, sums, dtype, column); });
}

/// Calls launch(element tag) where all operands lie in vectors of 16 bytes.
template <typename Launch>
bool with_element(DType dtype, int64_t n, std::initializer_list<const void*> operands, const Launch& launch) {
  const bool aligned =
      std::all_of(operands.begin(), operands.end(), [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; });
  if (!aligned || n * item_size(dtype) % 16 != 0) return false;
  if (dtype == DType::bfloat16) return launch(TypeTag<__nv_bfloat16>()), true;
  if (dtype == DType::float16) return launch(TypeTag<__half>()), true;
  if (dtype == DType::float32) return launch(TypeTag<float>()), true;
  return false;
}

}  // namespace

bool bias_gelu(const Context& context, const View& self, const View& bias, const View& result) {
  const int64_t n = self.sizes[self.ndim - 1];
  if (self.numel() == 0) return false;
  const int64_t rows = self.numel() / n;
  const deckle::cuda::DeviceGuard guard(context.device);
  const bool served = with_element(self.dtype, n, {self.data, bias.data, result.data}, [&]<typename E>(TypeTag<E>) {
    const Cover cover(rows, n / reduce::Packed<E>::kWidth);
    forward<E><<<cover.grid, cover.block, 0, deckle::cuda::stream_handle(context.device)>>>(
        static_cast<const E*>(self.data), static_cast<const E*>(bias.data), static_cast<E*>(result.data), rows, n);
  });
  deckle::cuda::check_launch(context.device);
  return served;
}

bool bias_gelu_backward(const Context& context, const View& gradient, const View& self, const View& bias,
                        const View& self_gradient, const View& bias_gradient) {
  const int64_t n = self.sizes[self.ndim - 1];
  if (self.numel() == 0 || gradient.dtype != self.dtype) return false;
  const int64_t rows = self.numel() / n;
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const bool served =
      with_element(self.dtype, n, {gradient.data, self.data, bias.data, self_gradient.data}, [&]<typename E>(TypeTag<E>) {
        const Cover cover(rows, n / reduce::Packed<E>::kWidth);
        const deckle::cuda::Block parts(cover.parts * n * static_cast<int64_t>(sizeof(float)), context.device);
        backward<E><<<cover.grid, cover.block, 0, stream>>>(static_cast<const E*>(gradient.data),
                                                            static_cast<const E*>(self.data), static_cast<const E*>(bias.data),
                                                            static_cast<E*>(self_gradient.data), parts.as<float>(), rows, n);
        merge_parts<<<dim3(reduce::blocks_of(n, kColumns)), dim3(kColumns, kDepth), 0, stream>>>(
            parts.as<float>(), bias_gradient.data, bias_gradient.dtype, n, cover.parts);
      });
  deckle::cuda::check_launch(context.device);
  return served;
}

}  // namespace deckle::kernels::cuda
