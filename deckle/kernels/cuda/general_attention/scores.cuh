// What comes between q kᵀ and the softmax, and which pairs are seen; letters as in docs/attention.md.
//
//   y = scale q k (+ bias)    z = cap(y) (+ bias) - slope |d| + table[d]       cap(y) = c tanh(y / c)
//   ty = scale (tq k + q tk) (+ tbias)    tz = cap'(y) ty (+ tbias) - tslope |d| + ttable[d]
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/general_attention/tile.cuh"

namespace deckle::kernels::cuda::general {

/// A plane (bias or boolean mask) of one head of one sequence.
struct Plane {
  const void* data = nullptr;
  int64_t base = 0, row_stride = 0, column_stride = 0;

  /// `offsets`: of a ragged plane, else null.
  __device__ Plane(const AttentionPlane& plane, const int64_t* offsets, const Head& head)
      : data(plane.data), row_stride(plane.row_stride), column_stride(plane.column_stride) {
    if (data == nullptr) return;
    if (offsets == nullptr) {
      base = head.sequence * plane.sequence_stride + head.head * plane.head_stride;
      return;
    }
    const int64_t columns = plane.column_stride != 0 ? head.keys : 1, rows = plane.row_stride != 0 ? head.queries : 1;
    column_stride = plane.column_stride != 0;
    row_stride = plane.row_stride != 0 ? columns : 0;
    base = offsets[head.sequence] + (plane.head_stride != 0 ? head.head * rows * columns : 0);
  }
  __device__ int64_t at(int i, int j) const { return base + i * row_stride + j * column_stride; }
};

/// Keys or queries [begin, end).
struct Range {
  int begin, end;
};

/// The keys that queries [first, last] may see by causal masks and windows.
__device__ inline Range key_range(const AttentionProblem& p, const Head& head, int first, int last) {
  int64_t begin = 0, end = head.keys;
  const int64_t front = first + head.diagonal, back = last + head.diagonal;
  if (p.causal) end = min(end, back + 1);
  if (p.window_right >= 0) end = min(end, back + p.window_right + 1);
  if (p.window_left >= 0) begin = max(begin, front - p.window_left);
  return {static_cast<int>(begin), static_cast<int>(end)};
}

/// The queries that may see keys [first, last].
__device__ inline Range query_range(const AttentionProblem& p, const Head& head, int first, int last) {
  int64_t begin = 0, end = head.queries;
  const int64_t front = first - head.diagonal, back = last - head.diagonal;
  if (p.causal) begin = max(begin, front);
  if (p.window_right >= 0) begin = max(begin, front - p.window_right);
  if (p.window_left >= 0) end = min(end, back + p.window_left + 1);
  return {static_cast<int>(min(begin, end)), static_cast<int>(end)};
}

__device__ inline bool allowed(const AttentionProblem& p, const Head& head, const Plane& mask, int i, int j) {
  if (i >= head.queries || j >= head.keys) return false;
  const int distance = i + head.diagonal - j;
  if (p.causal && distance < 0) return false;
  if (p.window_left >= 0 && distance > p.window_left) return false;
  if (p.window_right >= 0 && -distance > p.window_right) return false;
  if (p.ranges.bounds != nullptr) {
    bool inside = false;
    const int32_t* bounds = p.ranges.bounds + (head.first_row + i) * p.ranges.count * 2;
    for (int n = 0; n < p.ranges.count; ++n) inside = inside || (j >= bounds[2 * n] && j < bounds[2 * n + 1]);
    if (!inside) return false;
  }
  return mask.data == nullptr || static_cast<const uint8_t*>(mask.data)[mask.at(i, j)] != 0;
}

/// Where a tile of scores lies in its sequence.
struct Place {
  int row, key;
};

/// Bit 4 r + c: whether this thread's query r sees its key c.
__device__ inline uint32_t seen_pairs(const AttentionProblem& p, const Head& head, const Plane& mask, Place at) {
  const int last_row = at.row + kTile - 1, last_key = at.key + kTile - 1;
  const bool inside = last_row < head.queries && last_key < head.keys && mask.data == nullptr && p.ranges.bounds == nullptr;
  const Range of_first = key_range(p, head, at.row, at.row), of_last = key_range(p, head, last_row, last_row);
  if (inside && of_last.begin <= at.key && last_key < of_first.end) return 0xffff;
  uint32_t seen = 0;
#pragma unroll 1
  for (int n = 0; n < kSide * kSide; ++n) {
    if (allowed(p, head, mask, at.row + query_of(n / kSide), at.key + key_of(n % kSide))) seen |= 1u << n;
  }
  return seen;
}

/// f(whether features count, n, query, key, values) for each of this thread's pairs, where `values` are the pair's of the tiles.
/// Without features all stays in registers; with them, which are slower anyway, the loop is not unrolled.
template <typename T, int N, typename F>
__device__ __forceinline__ void for_pairs(bool featured, Place at, Tile<T>* const (&tiles)[N], F f) {
  if (!featured) {
#pragma unroll
    for (int n = 0; n < kSide * kSide; ++n) {
      T values[N];
#pragma unroll
      for (int t = 0; t < N; ++t) values[t] = (*tiles[t])[n / kSide][n % kSide];
      f(std::false_type{}, n, at.row + query_of(n / kSide), at.key + key_of(n % kSide), values);
#pragma unroll
      for (int t = 0; t < N; ++t) (*tiles[t])[n / kSide][n % kSide] = values[t];
    }
    return;
  }
  T values[kSide * kSide][N];
#pragma unroll
  for (int n = 0; n < kSide * kSide; ++n) {
#pragma unroll
    for (int t = 0; t < N; ++t) values[n][t] = (*tiles[t])[n / kSide][n % kSide];
  }
#pragma unroll 1
  for (int n = 0; n < kSide * kSide; ++n)
    f(std::true_type{}, n, at.row + query_of(n / kSide), at.key + key_of(n % kSide), values[n]);
#pragma unroll
  for (int n = 0; n < kSide * kSide; ++n) {
#pragma unroll
    for (int t = 0; t < N; ++t) (*tiles[t])[n / kSide][n % kSide] = values[n][t];
  }
}

/// One of this thread's four numbers of rows, which stay in registers for any n.
template <typename T>
__device__ __forceinline__ T of_row(const T (&rows)[kSide], int n) {
  T value = rows[0];
#pragma unroll
  for (int r = 1; r < kSide; ++r) value = n / kSide == r ? rows[r] : value;
  return value;
}

/// The features of one head, given as values or as a tangent.
template <typename T>
struct Features {
  Plane bias;
  T slope;
  bool sloped;
  const T* table;

  __device__ Features(const AttentionProblem& p, const AttentionOperands& x, const Head& head)
      : bias(x.bias, p.bias_offsets, head),
        slope(of_head<T>(x.slopes, head.head, T(0))),
        sloped(x.slopes != nullptr),
        table(x.table == nullptr ? nullptr : static_cast<const T*>(x.table) + head.head * (2 * p.table_reach + 1)) {}

  __device__ bool any() const { return bias.data != nullptr || sloped || table != nullptr; }
  __device__ T bias_at(const AttentionProblem& p, int i, int j) const {
    return bias.data == nullptr ? T(0) : load<T>(bias.data, bias.at(i, j), p.dtype);
  }
  __device__ T positional(const AttentionProblem& p, const Head& head, int i, int j) const {
    const int distance = j - i - head.diagonal, reach = static_cast<int>(p.table_reach);
    T value = sloped ? -slope * static_cast<T>(distance < 0 ? -distance : distance) : T(0);
    if (table != nullptr) value += table[min(max(distance, -reach), reach) + reach];
    return value;
  }
};

/// cap'(y) and cap''(y) by w = tanh(y / c).
template <typename T>
__device__ __forceinline__ T cap_slope(T w) {
  return T(1) - w * w;
}
template <typename T>
__device__ __forceinline__ T cap_bend(const AttentionProblem& p, T w) {
  return p.soft_cap == 0 ? T(0) : T(-2) / static_cast<T>(p.soft_cap) * w * cap_slope(w);
}

/// z of a product q k; w = tanh(y / c).
template <bool featured, typename T>
__device__ __forceinline__ T logit(const AttentionProblem& p, const Head& head, const Features<T>& f, int i, int j, T product,
                                   T& w) {
  T value = product * static_cast<T>(p.scale);
  if constexpr (featured) {
    const T bias = f.bias_at(p, i, j), cap = static_cast<T>(p.soft_cap);
    if (p.bias_before_cap) value += bias;
    if (cap != T(0)) {
      w = tanh(value / cap);
      value = cap * w;
    }
    if (!p.bias_before_cap) value += bias;
    value += f.positional(p, head, i, j);
  }
  return value;
}

/// tz of a product tq k + q tk; `y` is ty.
template <bool featured, typename T>
__device__ __forceinline__ T logit_tangent(const AttentionProblem& p, const Head& head, const Features<T>& tangent, int i, int j,
                                           T product, T w, T& y) {
  T value = product * static_cast<T>(p.scale);
  y = value;
  if constexpr (featured) {
    const T bias = tangent.bias_at(p, i, j);
    if (p.bias_before_cap) value += bias;
    y = value;
    value *= cap_slope(w);
    if (!p.bias_before_cap) value += bias;
    value += tangent.positional(p, head, i, j);
  }
  return value;
}

}  // namespace deckle::kernels::cuda::general
