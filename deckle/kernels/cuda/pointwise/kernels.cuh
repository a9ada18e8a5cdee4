#pragma once

// The two kernels of a pointwise expression F of N inputs, for each type T that it computes in:
//   vectors  eight or 16 elements a thread, 16 bytes at a time: the innermost dim is contiguous, or one number, in every operand
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

/// Vectors that a thread of `vectors` takes, 256 apart, and whose loads are in flight at once.
template <typename T, int N>
inline constexpr int kTogether = sizeof(T) == 8 || N > 2 ? 1 : 2;

/// Elements [first, first + count) of the innermost dim, one at a time: its end, which is no whole vector.
template <class F, typename T, int N>
__device__ __forceinline__ void elements(const Walk<N + 1>& walk, const int64_t (&offsets)[N + 1], int count) {
  const Operand& out = walk.operands[N];
  for (int k = 0; k < count; ++k) {
    T lane[N > 0 ? N : 1];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Operand& operand = walk.operands[i];
      lane[i] = operand.is_number ? number_of<T>(operand)
                                  : load<T>(operand.data, operand.dtype, offsets[i] + (operand.strides[0] == 0 ? 0 : k));
    }
    store<T>(value_of<F, Lane<T>>(lane, std::make_index_sequence<N>()), out.data, out.dtype, offsets[N] + k);
  }
}

template <class F, typename T, int N>
__global__ void __launch_bounds__(256) vectors(const __grid_constant__ Walk<N + 1> walk) {
  constexpr int kVectors = kTogether<T, N>;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (256 * kVectors) + threadIdx.x;
  const Operand& out = walk.operands[N];
  int64_t offsets[kVectors][N + 1] = {};
  Raw<T> raw[kVectors][N > 0 ? N : 1];
  bool whole[kVectors];
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    const int64_t vector = first + u * 256;
    whole[u] = false;
    if (vector >= walk.count) continue;
    const int64_t start = vector_places(walk, vector, offsets[u]);
    whole[u] = start + kWidth <= walk.inner;
    if (!whole[u]) elements<F, T, N>(walk, offsets[u], static_cast<int>(walk.inner - start));
  }
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Operand& operand = walk.operands[i];
      if (whole[u] && !operand.is_number && operand.strides[0] != 0)
        raw[u][i] = load_raw<T>(operand.data + offsets[u][i] * bytes_of(operand.dtype), operand.dtype);
    }
  }
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    if (!whole[u]) continue;
    T x[N > 0 ? N : 1][kWidth], y[kWidth];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Operand& operand = walk.operands[i];
      if (operand.is_number || operand.strides[0] == 0) {
        const T value = operand.is_number ? number_of<T>(operand) : load<T>(operand.data, operand.dtype, offsets[u][i]);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) x[i][k] = value;
      } else {
        decode_raw<T>(raw[u][i], operand.dtype, x[i]);
      }
    }
    if (std::is_same_v<T, float> && (out.dtype == DType::bfloat16 || out.dtype == DType::float16))
      values_of<F, Lane<T, std::is_same_v<T, float>>, T, N>(x, y);
    else
      values_of<F, Lane<T>, T, N>(x, y);
    store_vector<T>(y, out.data + offsets[u][N] * bytes_of(out.dtype), out.dtype);
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
