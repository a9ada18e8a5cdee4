#pragma once

// The two kernels of a pointwise expression F of N inputs, for each type T that it computes in:
//   vectors  eight to 32 elements a thread, 16 bytes at a time: the innermost dim is contiguous, or one number, in every operand
//   single   one element at a time: any strides and dtypes
// Generated files make a table of them; launch.cu chooses.
#include <utility>

#include "deckle/kernels/cuda/pointwise/launch.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"
#include "deckle/kernels/cuda/pointwise/vector.cuh"

namespace deckle::kernels::cuda::pointwise {

template <class F, class D, typename T, size_t N, size_t... I>
__device__ __forceinline__ T value_of(const T (&x)[N], std::index_sequence<I...>) {
  return F()(D(), x[I]...);
}

/// The values of a vector of operands.
template <class F, class D, typename T, int N>
__device__ __forceinline__ void values_of(const T (&x)[N > 0 ? N : 1][kWidth], T (&y)[kWidth]) {
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    T lane[N > 0 ? N : 1];
#pragma unroll
    for (int i = 0; i < N; ++i) lane[i] = x[i][k];
    y[k] = value_of<F, D>(lane, std::make_index_sequence<N>());
  }
}

template <typename T>
__device__ __forceinline__ T number_of(const Operand& operand) {
  if constexpr (std::is_same_v<T, int64_t>)
    return operand.integer;
  else
    return static_cast<T>(operand.real);
}

/// Vectors that a thread of `vectors` takes, kThreads apart: enough bytes in flight for few operands, not too many registers for
/// many.
template <typename T, int N>
inline constexpr int kTogether = sizeof(T) == 8 ? 1
                                 : N <= 1       ? 4
                                 : N == 2       ? 2
                                                : 1;

template <class F, typename T, int N>
__global__ void __launch_bounds__(256) vectors(const __grid_constant__ Walk<N + 1> walk) {
  constexpr int kVectors = kTogether<T, N>;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (256 * kVectors) + threadIdx.x;
  const Operand& out = walk.operands[N];
  T x[kVectors][N > 0 ? N : 1][kWidth];
  int64_t places_of_result[kVectors];
  int counts[kVectors];
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    counts[u] = 0;
    const int64_t vector = first + u * 256;
    if (vector >= walk.count) continue;
    int64_t offsets[N + 1] = {};
    const int64_t start = vector_places(walk, vector, offsets);
    counts[u] = static_cast<int>(min(static_cast<int64_t>(kWidth), walk.inner - start));
    places_of_result[u] = offsets[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Operand& operand = walk.operands[i];
      if (operand.is_number || operand.strides[0] == 0) {
        const T value = operand.is_number ? number_of<T>(operand) : load<T>(operand.data, operand.dtype, offsets[i]);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) x[u][i][k] = value;
      } else if (counts[u] == kWidth) {
        load_vector<T>(operand.data + offsets[i] * bytes_of(operand.dtype), operand.dtype, x[u][i]);
      } else {  // the end of the innermost dim
#pragma unroll
        for (int k = 0; k < kWidth; ++k) x[u][i][k] = load<T>(operand.data, operand.dtype, offsets[i] + min(k, counts[u] - 1));
      }
    }
  }
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    if (counts[u] == 0) continue;
    T y[kWidth];
    if (std::is_same_v<T, float> && (out.dtype == DType::bfloat16 || out.dtype == DType::float16))
      values_of<F, Lane<T, std::is_same_v<T, float>>, T, N>(x[u], y);
    else
      values_of<F, Lane<T>, T, N>(x[u], y);
    if (counts[u] == kWidth) {
      store_vector<T>(y, out.data + places_of_result[u] * bytes_of(out.dtype), out.dtype);
    } else {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        if (k < counts[u]) store<T>(y[k], out.data, out.dtype, places_of_result[u] + k);
      }
    }
  }
}

template <class F, typename T, int N>
__global__ void __launch_bounds__(256) single(const __grid_constant__ Walk<N + 1> walk) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; index < walk.count; index += step) {
    int64_t offsets[N + 1] = {};
    places(walk, index, 1, offsets);
    T lane[N > 0 ? N : 1];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Operand& operand = walk.operands[i];
      lane[i] = operand.is_number ? number_of<T>(operand) : load<T>(operand.data, operand.dtype, offsets[i]);
    }
    const Operand& out = walk.operands[N];
    store<T>(value_of<F, Lane<T>>(lane, std::make_index_sequence<N>()), out.data, out.dtype, offsets[N]);
  }
}

template <class F, typename T, int N>
Pair pair_of() {
  return {reinterpret_cast<const void*>(&vectors<F, T, N>), reinterpret_cast<const void*>(&single<F, T, N>), kTogether<T, N>};
}

template <class F, int N>
Kernels kernels() {
  return {pair_of<F, float, N>(), pair_of<F, double, N>(), {}};
}
template <class F, int N>
Kernels kernels_with_integers() {
  return {pair_of<F, float, N>(), pair_of<F, double, N>(), pair_of<F, int64_t, N>()};
}
template <class F, int N>
Kernels kernels_of_integers() {
  return {{}, {}, pair_of<F, int64_t, N>()};
}

}  // namespace deckle::kernels::cuda::pointwise
