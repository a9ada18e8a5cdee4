#pragma once

// The kernels of a pointwise expression F of N inputs, for each type T that it computes in:
//   flat     16 bytes at a time, of one dtype (float and bfloat16): all operands are contiguous, or one row for all, or numbers
//   vectors  eight or 16 elements a thread, 16 bytes at a time: the innermost dim is contiguous, or one number, in every operand
//   single   one element at a time: any strides and dtypes
// Generated files make a table of them; launch.cu chooses.
#include <utility>

#include "deckle/kernels/cuda/pointwise/flat_walk.cuh"
#include "deckle/kernels/cuda/pointwise/launch.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"
#include "deckle/kernels/cuda/pointwise/vector.cuh"

namespace deckle::kernels::cuda::pointwise {

template <class F, class D, typename T, size_t N, size_t... I>
__device__ __forceinline__ T value_of(const T (&x)[N], std::index_sequence<I...>) {
  return F()(D(), x[I]...);
}

/// The values of a vector of operands.
template <class F, class D, typename T, int N, int W>
__device__ __forceinline__ void values_of(const T (&x)[N > 0 ? N : 1][W], T (&y)[W]) {
#pragma unroll
  for (int k = 0; k < W; ++k) {
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

/// The same of `flat`: halves need more arithmetic for 16 bytes. Of one operand, small blocks finish sooner.
template <typename E, int N>
inline constexpr int kFlatTogether = sizeof(E) == 2 && N == 2 ? 4 : 2;
template <int N>
inline constexpr int kFlatThreads = N == 1 ? 128 : 256;

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
        raw[u][i] = load_raw<T>(operand.data + offsets[u][i] * item_size(operand.dtype), operand.dtype);
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
      values_of<F, Lane<T, std::is_same_v<T, float>>, T, N, kWidth>(x, y);
    else
      values_of<F, Lane<T>, T, N, kWidth>(x, y);
    store_vector<T>(y, out.data + offsets[u][N] * item_size(out.dtype), out.dtype);
  }
}

/// Every tensor of elements E one after another from places aligned to 16 bytes; or rows of whole vectors, of which some operands
/// have one alone.
template <class F, typename E, int N, int kVectors = kFlatTogether<E, N>, int kThreads = kFlatThreads<N>>
__global__ void __launch_bounds__(kThreads) flat(const __grid_constant__ FlatWalk<N + 1> walk) {
  constexpr int W = Pack<E>::kWidth;
  constexpr DType kDType = sizeof(E) == 2 ? DType::bfloat16 : DType::float32;
  using Tag = Lane<float, sizeof(E) == 2>;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * kVectors) + threadIdx.x;
  const FlatOperand& out = walk.operands[N];
  uint4 raw[kVectors][N > 0 ? N : 1];
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    const int64_t vector = first + u * kThreads;
    int64_t in_row = vector;
    if (N > 1 && walk.in_rows) in_row -= int64_t{walk.row.quotient(static_cast<uint32_t>(vector))} * walk.row.divisor;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const FlatOperand& operand = walk.operands[i];
      if (vector >= walk.vectors || operand.is_number) continue;
      raw[u][i] = reinterpret_cast<const uint4*>(operand.data)[N > 1 && operand.one_row ? in_row : vector];
    }
  }
#pragma unroll
  for (int u = 0; u < kVectors; ++u) {
    const int64_t vector = first + u * kThreads;
    if (vector >= walk.vectors) break;
    float x[N > 0 ? N : 1][W], y[W];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const FlatOperand& operand = walk.operands[i];
      if (operand.is_number) {
#pragma unroll
        for (int k = 0; k < W; ++k) x[i][k] = operand.number;
      } else {
        Pack<E>::decode(raw[u][i], x[i]);
      }
    }
    values_of<F, Tag, float, N, W>(x, y);
    reinterpret_cast<uint4*>(out.data)[vector] = Pack<E>::encode(y);
  }
  const int64_t last = walk.vectors * W + threadIdx.x;  // what is no whole vector, by the first block
  if (blockIdx.x == 0 && last < walk.elements) {
    float lane[N > 0 ? N : 1];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const FlatOperand& operand = walk.operands[i];
      lane[i] = operand.is_number ? operand.number : load<float>(operand.data, kDType, last);
    }
    store<float>(value_of<F, Tag>(lane, std::make_index_sequence<N>()), out.data, kDType, last);
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
Flats flats_of() {
  return {{reinterpret_cast<const void*>(&flat<F, float, N>), kFlatTogether<float, N>, kFlatThreads<N>},
          {reinterpret_cast<const void*>(&flat<F, __nv_bfloat16, N>), kFlatTogether<__nv_bfloat16, N>, kFlatThreads<N>}};
}

template <class F, int N>
Kernels kernels() {
  return {pair_of<F, float, N>(), pair_of<F, double, N>(), {}, flats_of<F, N>()};
}
template <class F, int N>
Kernels kernels_with_integers() {
  return {pair_of<F, float, N>(), pair_of<F, double, N>(), pair_of<F, int64_t, N>(), flats_of<F, N>()};
}
template <class F, int N>
Kernels kernels_of_integers() {
  return {{}, {}, pair_of<F, int64_t, N>(), {}};
}

}  // namespace deckle::kernels::cuda::pointwise
