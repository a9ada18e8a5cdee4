// Gradients of what is added to the logits, and their tangents; dZ, or dY of a bias before the cap, by tiles.
//
//   dbias = sum dZ over the dims that it is broadcast along      dslope = - sum dZ |d|      dtable[d] = sum dZ
#pragma once

#include "deckle/kernels/cuda/general_attention/statistics.cuh"

namespace deckle::kernels::cuda::general {

/// Which dims a bias has, and so what a block of its gradient owns: tiles of its own rows and columns.
struct PlaneShape {
  bool by_sequence, by_head, by_row, by_column;
  int64_t sequences, heads, row_tiles, column_tiles;
};

template <typename T>
__device__ __forceinline__ void add_tile(Tile<T>& sum, const Tile<T>& tile) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int c = 0; c < kSide; ++c) sum[r][c] += tile[r][c];
  }
}

/// Sums a tile over the dims that a plane does not have, into its first row or column.
template <typename T>
__device__ void collapse(const PlaneShape& shape, Tile<T>& sum, Shared<T>& shared) {
  if (!shape.by_column) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) sum[r][0] = row_sum((sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3]));
  }
  if (shape.by_row) return;
  __syncthreads();
#pragma unroll
  for (int c = 0; c < kSide; ++c)
    shared.weights[thread_y()][thread_x() * kSide + c] = (sum[0][c] + sum[1][c]) + (sum[2][c] + sum[3][c]);
  __syncthreads();
#pragma unroll
  for (int c = 0; c < kSide; ++c) {
    sum[0][c] = T(0);
    for (int y = 0; y < kLanes; ++y) sum[0][c] += shared.weights[y][thread_x() * kSide + c];
  }
}

// A block owns 64 x 64 elements of the gradient, and walks all that are added up in them, in a fixed order.
template <typename T, bool second>
__global__ void __launch_bounds__(kThreads, 1)
    bias_gradient(const Call call, const Cotangents g, const AttentionPlane result, const PlaneShape shape) {
  __shared__ Shared<T> shared;
  const AttentionProblem& p = call.p;
  int64_t rest = blockIdx.x;
  const int64_t column_tile = rest % shape.column_tiles, row_tile = rest / shape.column_tiles % shape.row_tiles;
  rest /= shape.column_tiles * shape.row_tiles;
  const int own_head = static_cast<int>(rest % shape.heads), own_sequence = static_cast<int>(rest / shape.heads);
  Tile<T> sum;
  fill(sum, T(0));
  for (int b = own_sequence; b < (shape.by_sequence ? own_sequence + 1 : p.sequences); ++b) {
    for (int h = own_head; h < (shape.by_head ? own_head + 1 : p.heads); ++h) {
      const Head head(p, b, h);
      const GradientTile<T, second> tile(call, g, head);
      const Plane mask(p.mask, nullptr, head);
      const int first = static_cast<int>(row_tile) * kTile, key = static_cast<int>(column_tile) * kTile;
      for (int row = first; row < (shape.by_row ? min(first + 1, head.queries) : head.queries); row += kTile) {
        for (int column = key; column < (shape.by_column ? min(key + 1, head.keys) : head.keys); column += kTile) {
          const Place at{row, column};
          const uint32_t seen = seen_pairs(p, head, mask, at);
          note_live(p, g, head, row, shared);
          if (!__syncthreads_or(seen != 0)) continue;
          Weights<T> weights;
          tile.template compute<false>(at, seen, p.bias_before_cap, shared, weights);
          add_tile(sum, second ? weights.td : weights.d);
        }
      }
    }
  }
  collapse(shape, sum, shared);
  const Head head(p, own_sequence, own_head);
  const Plane to(result, p.bias_offsets, head);
  const int64_t rows = shape.by_sequence ? head.queries : call.longest_rows,
                columns = shape.by_sequence ? head.keys : call.longest_keys;
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    if (!shape.by_row && (r != 0 || thread_y() != 0)) continue;
    const int i = shape.by_row ? static_cast<int>(row_tile) * kTile + query_of(r) : 0;
    if (shape.by_row && i >= rows) continue;
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      if (!shape.by_column && (c != 0 || thread_x() != 0)) continue;
      const int j = shape.by_column ? static_cast<int>(column_tile) * kTile + key_of(c) : 0;
      if (shape.by_column && j >= columns) continue;
      store(const_cast<void*>(to.data), to.at(i, j), p.dtype, sum[r][c]);
    }
  }
}

/// Sums of dZ by distance: the table's, and the slopes'.
template <typename T>
struct DistanceSums {
  T* table;        // [heads, parts, 2 reach + 1]; null: not wanted
  double* slopes;  // [heads, parts]
};

/// Adds the diagonals of the tile that lies in shared.weights by its own rows and columns.
template <typename T>
__device__ void add_diagonals(const AttentionProblem& p, const Head& head, Place at, Shared<T>& shared, T* table) {
  constexpr int kDiagonals = 2 * kTile - 1;
  const int n = static_cast<int>(threadIdx.x);
  const int64_t nearest = at.key - at.row - head.diagonal - (kTile - 1), reach = p.table_reach;
  T sum = 0;
  for (int row = 0; n < kDiagonals && row < kTile; ++row) {
    const int column = row + n - (kTile - 1);
    if (column >= 0 && column < kTile) sum += shared.weights[row][column];
  }
  T* const diagonals = &shared.a[0][0];
  __syncthreads();
  if (n < kDiagonals) diagonals[n] = sum;
  __syncthreads();
  if (n < kDiagonals) {
    const int64_t distance = nearest + n;
    if (distance > -reach && distance < reach) table[distance + reach] += sum;
  } else if (n == kDiagonals || n == kDiagonals + 1) {  // the ends have all that is farther
    const bool left = n == kDiagonals;
    if (!left && reach == 0) return;
    T far = 0;
    for (int m = 0; m < kDiagonals; ++m) {
      const int64_t distance = nearest + m;
      if (left ? distance <= -reach || reach == 0 : distance >= reach) far += diagonals[m];
    }
    table[left ? 0 : 2 * reach] += far;
  }
}

/// In how many parts a head's rows are divided for the sums by distance: by the problem alone.
__host__ __device__ inline int distance_parts(const Call& call) {
  return static_cast<int>(call.row_task_count < 64 ? call.row_task_count : 64);
}

// Grid parts * heads: a block walks every parts-th row task.
template <typename T, bool second>
__global__ void __launch_bounds__(kThreads, 1)
    distance_gradients(const Call call, const Cotangents g, const DistanceSums<T> sums) {
  __shared__ Shared<T> shared;
  const AttentionProblem& p = call.p;
  const int parts = distance_parts(call), h = static_cast<int>(blockIdx.x) / parts;
  const int64_t part = blockIdx.x, size = 2 * p.table_reach + 1;
  T* const table = sums.table == nullptr ? nullptr : sums.table + part * size;
  for (int64_t n = threadIdx.x; table != nullptr && n < size; n += kThreads) table[n] = T(0);
  double slope = 0;
  for (int64_t n = static_cast<int>(blockIdx.x) % parts; n < call.row_task_count; n += parts) {
    const Task task = call.row_tasks[n];
    const Head head(p, task.sequence, h);
    const GradientTile<T, second> tile(call, g, head);
    const Plane mask(p.mask, nullptr, head);
    const Range keys = key_range(p, head, task.first, tile_end(task.first, head.queries) - 1);
    note_live(p, g, head, task.first, shared);
    for (int key = keys.begin - keys.begin % kTile; key < keys.end; key += kTile) {
      const Place at{task.first, key};
      const uint32_t seen = seen_pairs(p, head, mask, at);
      if (!__syncthreads_or(seen != 0)) continue;
      Weights<T> weights;
      tile.template compute<false>(at, seen, false, shared, weights);
      const Tile<T>& dz = second ? weights.td : weights.d;
      T sum = 0;
      __syncthreads();
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
#pragma unroll
        for (int c = 0; c < kSide; ++c) {
          const int distance = at.row + query_of(r) + head.diagonal - at.key - key_of(c);
          sum += dz[r][c] * static_cast<T>(distance < 0 ? -distance : distance);
          shared.weights[query_of(r)][key_of(c)] = dz[r][c];
        }
      }
      slope -= static_cast<double>(sum);
      __syncthreads();
      if (table != nullptr) add_diagonals(p, head, at, shared, table);
    }
    __syncthreads();
  }
  if (sums.slopes == nullptr) return;
  slope = block_sum(slope, reinterpret_cast<double*>(&shared.weights[0][0]));
  if (threadIdx.x == 0) sums.slopes[part] = slope;
}

// Adds up parts [heads, parts, size], in order.
template <typename T, typename P>
__global__ void sum_parts(const P* parts, int count, int64_t size, T* result, int64_t total) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= total) return;
  double sum = 0;
  for (int n = 0; n < count; ++n) sum += static_cast<double>(parts[(at / size * count + n) * size + at % size]);
  result[at] = static_cast<T>(sum);
}

inline int64_t table_bytes(const Call& call) {
  return (call.p.heads * distance_parts(call) * (2 * call.p.table_reach + 1) * (call.p.dtype == DType::float64 ? 8 : 4) + 255) /
         256 * 256;
}
inline int64_t distance_bytes(const Call& call, const AttentionOperands& d) {
  return (d.table != nullptr ? table_bytes(call) : 0) +
         (d.slopes != nullptr ? call.p.heads * distance_parts(call) * int64_t{sizeof(double)} : 0);
}

template <typename T, bool second>
void launch_feature_gradients(const Call& call, const Cotangents& g, const AttentionOperands& d, void* workspace,
                              cudaStream_t stream) {
  using attention::launch_kernel;
  const AttentionProblem& p = call.p;
  const auto heads = static_cast<unsigned>(p.heads);
  if (d.sinks != nullptr && g.x.sinks != nullptr)
    launch_kernel("attention: gradient of sinks", sink_gradient<T, second>, heads, kThreads, 0, stream, call, g,
                  static_cast<T*>(d.sinks));
  if (d.bias.data != nullptr && p.sequences > 0) {
    PlaneShape shape{p.bias_offsets != nullptr || d.bias.sequence_stride != 0,
                     d.bias.head_stride != 0,
                     d.bias.row_stride != 0,
                     d.bias.column_stride != 0,
                     1,
                     1,
                     1,
                     1};
    if (shape.by_sequence) shape.sequences = p.sequences;
    if (shape.by_head) shape.heads = p.heads;
    if (shape.by_row) shape.row_tiles = panels_of(call.longest_rows);
    if (shape.by_column) shape.column_tiles = panels_of(call.longest_keys);
    const int64_t blocks = shape.sequences * shape.heads * shape.row_tiles * shape.column_tiles;
    if (blocks > 0) {
      launch_kernel("attention: gradient of bias", bias_gradient<T, second>, static_cast<unsigned>(blocks), kThreads, 0, stream,
                    call, g, d.bias, shape);
    }
  }
  if (d.table == nullptr && d.slopes == nullptr) return;
  const int parts = distance_parts(call);
  DistanceSums<T> sums{static_cast<T*>(d.table != nullptr ? workspace : nullptr), nullptr};
  if (d.slopes != nullptr)
    sums.slopes = reinterpret_cast<double*>(static_cast<char*>(workspace) + (d.table != nullptr ? table_bytes(call) : 0));
  if (parts > 0) {
    launch_kernel("attention: gradients by distance", distance_gradients<T, second>, static_cast<unsigned>(parts) * heads,
                  kThreads, 0, stream, call, g, sums);
  }
  const auto add_up = [&](auto* of, int64_t size, void* to) {
    using P = std::remove_pointer_t<decltype(of)>;
    const int64_t total = p.heads * size;
    launch_kernel("attention: sums of parts", sum_parts<T, P>, static_cast<unsigned>((total + kThreads - 1) / kThreads), kThreads,
                  0, stream, of, parts, size, static_cast<T*>(to), total);
  };
  if (d.table != nullptr) add_up(sums.table, 2 * p.table_reach + 1, d.table);
  if (d.slopes != nullptr) add_up(sums.slopes, 1, d.slopes);
}

}  // namespace deckle::kernels::cuda::general
