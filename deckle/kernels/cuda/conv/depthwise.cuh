#pragma once

// Convolutions of one channel a group, weight [channels, 1, size]. A thread an element; of the weight's gradient a block 32
// channels of a tap, thread y windows y, y + 8, ...: sums in double, merged in the order of the threads.
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/conv/windows.cuh"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::conv {

struct Depthwise {
  const void *from, *weight, *bias;
  void* to;
  DType dtype, bias_dtype;
  int64_t channels, size, count;
};

/// kTransposes: `from` are the windows' gradients and `to` the rows'.
template <typename T, bool kTransposes>
__global__ void __launch_bounds__(256) depthwise_kernel(Windows windows, Depthwise d) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= d.count) return;
  const int64_t at = e / d.channels, channel = e - at * d.channels;
  T sum = 0;
  for (int64_t tap = 0; tap < d.size; ++tap) {
    const int64_t row = kTransposes ? windows.window(at, tap) : windows.row(at, tap);
    if (row < 0) continue;
    sum += pointwise::load<T>(d.from, d.dtype, row * d.channels + channel) *
           pointwise::load<T>(d.weight, d.dtype, channel * d.size + tap);
  }
  if (d.bias != nullptr) sum += pointwise::load<T>(d.bias, d.bias_dtype, channel);
  pointwise::store(sum, d.to, d.dtype, e);
}

static __global__ void __launch_bounds__(256)
    depthwise_weight_kernel(Windows windows, const void* values, const void* gradient, DType dtype, int64_t channels,
                            int64_t size, int64_t window_count, void* result) {
  __shared__ double shared[8][32];
  const int64_t tap = blockIdx.x % size, channel = blockIdx.x / size * 32 + threadIdx.x;
  double sum = 0;
  if (channel < channels) {
    for (int64_t at = threadIdx.y; at < window_count; at += 8) {
      const int64_t row = windows.row(at, tap);
      if (row >= 0)
        sum += pointwise::load<double>(values, dtype, row * channels + channel) *
               pointwise::load<double>(gradient, dtype, at * channels + channel);
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || channel >= channels) return;
  for (int y = 1; y < 8; ++y) sum += shared[y][threadIdx.x];
  pointwise::store(sum, result, dtype, channel * size + tap);
}

template <bool kTransposes>
void run_depthwise(const Context& context, const Windows& windows, const Depthwise& d) {
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  if (d.dtype == DType::float64)
    depthwise_kernel<double, kTransposes><<<blocks_of(d.count), 256, 0, stream>>>(windows, d);
  else
    depthwise_kernel<float, kTransposes><<<blocks_of(d.count), 256, 0, stream>>>(windows, d);
}

inline void depthwise(const Context& context, const Windows& windows, const View& values, const View& weight, const View& bias,
                      int64_t size, int64_t channels, int64_t window_count, const View& result) {
  run_depthwise<false>(
      context, windows,
      {values.data, weight.data, bias.data, result.data, values.dtype, bias.dtype, channels, size, window_count * channels});
}
inline void depthwise_transpose(const Context& context, const Windows& windows, const View& gradient, const View& weight,
                                int64_t size, int64_t channels, int64_t row_count, const View& result) {
  run_depthwise<true>(
      context, windows,
      {gradient.data, weight.data, nullptr, result.data, gradient.dtype, gradient.dtype, channels, size, row_count * channels});
}
inline void depthwise_weight(const Context& context, const Windows& windows, const View& values, const View& gradient,
                             int64_t size, int64_t channels, int64_t window_count, const View& result) {
  const auto blocks = static_cast<unsigned>((channels + 31) / 32 * size);
  depthwise_weight_kernel<<<blocks, dim3(32, 8), 0, deckle::cuda::stream_handle(context.device)>>>(
      windows, values.data, gradient.data, values.dtype, channels, size, window_count, result.data);
}

}  // namespace deckle::kernels::cuda::conv
