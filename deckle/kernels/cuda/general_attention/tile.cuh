// Exact products of tiles: 256 threads, each with 4 x 4 scores of 64 queries x 64 keys, in fused multiply-adds of T.
//
// A row of a tile stands in shared memory at a position that makes the 16 scores of a thread the 16 elements that one call of the
// dropout's generator serves (docs/attention.md): queries 2a, 2a + 1, 2a + 8, 2a + 9 of a block of 16, and keys alike.
#pragma once

#include "deckle/kernels/cuda/general_attention/problem.cuh"

namespace deckle::kernels::cuda::general {

inline constexpr int kTile = 64, kSide = 4, kLanes = kTile / kSide, kThreads = kLanes * kLanes;

/// The end of the tile that begins at row `first` of `rows`.
__device__ __forceinline__ int tile_end(int first, int rows) { return first + kTile < rows ? first + kTile : rows; }

/// The row of a tile at a position.
__device__ __forceinline__ int row_at(int position) {
  const int thread = position / kSide, e = position % kSide;
  return thread / 4 * 16 + thread % 4 * 2 + (e & 1) + 8 * (e >> 1);
}
/// This thread's n-th query, its n-th key, and its n-th column of a product with values, in tiles.
__device__ __forceinline__ int thread_y() { return static_cast<int>(threadIdx.x) / kLanes; }
__device__ __forceinline__ int thread_x() { return static_cast<int>(threadIdx.x) % kLanes; }
__device__ __forceinline__ int query_of(int n) { return row_at(thread_y() * kSide + n); }
__device__ __forceinline__ int key_of(int n) { return row_at(thread_x() * kSide + n); }
__device__ __forceinline__ int column_of(int n) { return thread_x() * kSide + n; }

/// A thread's share of a 64 x 64 tile.
template <typename T>
using Tile = T[kSide][kSide];

template <typename T>
__device__ __forceinline__ void fill(Tile<T>& tile, T value) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int c = 0; c < kSide; ++c) tile[r][c] = value;
  }
}

template <int kSums, typename T>
__device__ __forceinline__ void clear(Tile<T> (&tiles)[kSums]) {
#pragma unroll
  for (int n = 0; n < kSums; ++n) fill(tiles[n], T(0));
}

template <typename T>
struct Shared {
  static constexpr int kPanel = 64 / sizeof(T);  // columns of an operand, or rows of values, at a time
  static constexpr int kStride = kTile + 4;
  alignas(16) T a[kPanel][kStride], b[kPanel][kStride];
  alignas(16) T weights[kTile][kStride];  // [summed position][position of the result]
  uint8_t live[kTile];                    // by position of the query: whether its row is read
};

/// 64 rows of one head: rows that the sequence does not have, and those that are not live, are zeros and are not read.
struct Operand {
  const char* data = nullptr;  // row `first` of the tile; null: absent
  int64_t stride = 0;
  DType dtype = DType::float32;
  int count = 0;                  // rows that there are
  const uint8_t* live = nullptr;  // null: all

  __device__ explicit operator bool() const { return data != nullptr; }
};

__device__ __forceinline__ Operand operand(const AttentionRows& rows, DType dtype, int first, int end, int64_t base, int head,
                                           const uint8_t* live = nullptr) {
  Operand o;
  if (rows.data == nullptr) return o;
  const int64_t at = (base + first) * rows.row_stride + head * rows.head_stride;
  o.data = static_cast<const char*>(rows.data) + at * (dtype == DType::float64 ? 8 : dtype == DType::float32 ? 4 : 2);
  o.stride = rows.row_stride;
  o.dtype = dtype;
  o.count = tile_end(first, end) - first;
  o.live = live;
  return o;
}

/// Elements of one column, in rows at `position` and every kStep-th position after it; the element type is asked once for all.
template <int kStep, int kCount, typename T>
__device__ __forceinline__ void read_column(const Operand& o, int position, int column, int width, T (&to)[kCount]) {
  const auto read = [&](const auto* data) {
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const int at = position + n * kStep, row = row_at(at);
      const bool there = row < o.count && column < width && (o.live == nullptr || o.live[at]);
      to[n] = there ? static_cast<T>(data[row * o.stride + column]) : T(0);
    }
  };
  if constexpr (sizeof(T) == 8) {
    read(reinterpret_cast<const double*>(o.data));
  } else if (o.dtype == DType::float32) {
    read(reinterpret_cast<const float*>(o.data));
  } else if (o.dtype == DType::bfloat16) {
    read(reinterpret_cast<const __nv_bfloat16*>(o.data));
  } else {
    read(reinterpret_cast<const __half*>(o.data));
  }
}

template <typename T>
__device__ __forceinline__ void multiply(Tile<T>& sum, const T* left, const T* right) {
  T x[kSide], y[kSide];
#pragma unroll
  for (int n = 0; n < kSide; ++n) x[n] = left[n], y[n] = right[n];
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int c = 0; c < kSide; ++c) sum[r][c] += x[r] * y[c];
  }
}

/// scores += queries keysᵀ, over `width` columns. An absent operand adds nothing.
template <typename T>
__device__ void add_product(Tile<T>& scores, const Operand& queries, const Operand& keys, int width, Shared<T>& shared) {
  if (!queries || !keys) return;
  constexpr int kPanel = Shared<T>::kPanel, kRows = kThreads / kPanel, kLoads = kTile / kRows;
  const int column = threadIdx.x % kPanel, position = threadIdx.x / kPanel;
  T q[kLoads], k[kLoads];
  const auto fetch = [&](int from) {
    read_column<kRows>(queries, position, from + column, width, q);
    read_column<kRows>(keys, position, from + column, width, k);
  };
  fetch(0);
  for (int from = 0; from < width; from += kPanel) {
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      shared.a[column][position + n * kRows] = q[n];
      shared.b[column][position + n * kRows] = k[n];
    }
    __syncthreads();
    if (from + kPanel < width) fetch(from + kPanel);
#pragma unroll 4
    for (int d = 0; d < kPanel; ++d) multiply(scores, &shared.a[d][thread_y() * kSide], &shared.b[d][thread_x() * kSide]);
  }
}

/// sums += weights values, for 64 columns of the values in each sum, from `first` on: the weights are a tile of scores, and
/// `by_key` says whether they are summed over keys (the result has rows of queries) or over queries.
template <bool by_key, int kSums, typename T>
__device__ void add_values(Tile<T> (&sums)[kSums], const Tile<T>& weights, const Operand& values, int first, int width,
                           Shared<T>& shared) {
  static_assert(kSums <= 2);
  if (!values) return;
  constexpr int kPanel = Shared<T>::kPanel, kRows = kThreads / kTile, kLoads = kPanel / kRows;
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      const int query = thread_y() * kSide + r, key = thread_x() * kSide + c;
      shared.weights[by_key ? key : query][by_key ? query : key] = weights[r][c];
    }
  }
  const int column = threadIdx.x % kTile, position = threadIdx.x / kTile;
  T v[kSums][kLoads];
  const auto fetch = [&](int from) {
#pragma unroll
    for (int s = 0; s < kSums; ++s) read_column<kRows>(values, from + position, first + s * kTile + column, width, v[s]);
  };
  const int end = (values.count + 15) / 16 * 16;  // the positions of rows below the count
  fetch(0);
  for (int from = 0; from < end; from += kPanel) {
    __syncthreads();
#pragma unroll
    for (int n = 0; n < kLoads; ++n) {
      shared.a[position + n * kRows][column] = v[0][n];
      if constexpr (kSums == 2) shared.b[position + n * kRows][column] = v[1][n];
    }
    __syncthreads();
    if (from + kPanel < end) fetch(from + kPanel);
#pragma unroll 4
    for (int i = 0; i < kPanel; ++i) {
      const T* const left = &shared.weights[from + i][thread_y() * kSide];
      multiply(sums[0], left, &shared.a[i][thread_x() * kSide]);
      if constexpr (kSums == 2) multiply(sums[1], left, &shared.b[i][thread_x() * kSide]);
    }
  }
}

/// Writes factor(n) * sums[n] to this thread's rows of the result, columns [first, first + 64 kSums).
template <int kSums, typename T, typename Factor>
__device__ void store_tiles(const Tile<T> (&sums)[kSums], const AttentionRows& rows, DType dtype, int64_t base, int count,
                            int head, int first, int width, Factor factor) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    const int row = query_of(r);
    if (row >= count) continue;
    const T times = factor(r);
#pragma unroll
    for (int n = 0; n < kSums * kSide; ++n) {
      const int column = first + n / kSide * kTile + column_of(n % kSide);
      const T value = sums[n / kSide][r][n % kSide];
      if (column < width)
        store(rows.data, (base + row) * rows.row_stride + head * rows.head_stride + column, dtype,
              times == T(0) ? T(0) : times * value);
    }
  }
}

/// Over the 16 threads that share queries.
template <typename T>
__device__ __forceinline__ T row_sum(T value) {
#pragma unroll
  for (int lane = kLanes / 2; lane > 0; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
  return value;
}
template <typename T>
__device__ __forceinline__ T row_maximum(T value) {
#pragma unroll
  for (int lane = kLanes / 2; lane > 0; lane /= 2) value = fmax(value, __shfl_xor_sync(~0u, value, lane));
  return value;
}

}  // namespace deckle::kernels::cuda::general
