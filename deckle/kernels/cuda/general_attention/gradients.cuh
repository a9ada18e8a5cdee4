// dq, dk and dv, or their tangents. A block owns 64 rows and 64 columns of one of them and walks the other side.
//
//   dq  = scale dY k                     dk  = scale dYᵀ q                      dv  = (R P)ᵀ dO
//   tdq = scale (tdY k + dY tk)          tdk = scale (tdYᵀ q + dYᵀ tq)          tdv = (R P (tz - tlse))ᵀ dO + (R P)ᵀ tdO
#pragma once

#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/general_attention/gradient.cuh"
#include "deckle/kernels/cuda/general_attention/kernels.h"

namespace deckle::kernels::cuda::general {

template <typename T, bool second, int kSums>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 && !second ? 2 : 1)
    query_gradient(const Call call, const Cotangents g, const AttentionRows dq, int panels) {
  if (unwanted(call)) return;
  __shared__ Shared<T> shared;
  const AttentionProblem& p = call.p;
  const RowBlock block(call, panels, kSums * kTile);
  const Head& head = block.head;
  const GradientTile<T, second> tile(call, g, head);
  const Plane mask(p.mask, nullptr, head);
  note_live(p, g, head, block.first, shared);
  Tile<T> sums[kSums];
  clear(sums);
  for (int key = block.keys.begin; key < block.keys.end; key += kTile) {
    const Place at{block.first, key};
    const uint32_t seen = seen_pairs(p, head, mask, at);
    if (!__syncthreads_or(seen != 0)) continue;
    Weights<T> weights;
    tile.template compute<false>(at, seen, true, shared, weights);
    const int width = static_cast<int>(p.head_dim);
    if constexpr (second) {
      add_values<true>(sums, weights.td, tile.of_keys(g.x.k, at), block.column, width, shared);
      add_values<true>(sums, weights.d, tile.of_keys(g.t.k, at), block.column, width, shared);
    } else {
      add_values<true>(sums, weights.d, tile.of_keys(g.x.k, at), block.column, width, shared);
    }
  }
  store_tiles(sums, dq, p.dtype, block.row(), block.count, head.head, block.column, static_cast<int>(p.head_dim),
              [&](int) { return static_cast<T>(p.scale); });
}

template <typename T, bool second, bool of_values, int kSums>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 && !second ? 2 : 1)
    key_gradient(const Call call, const Cotangents g, const AttentionRows result, int panels) {
  if (unwanted(call)) return;
  __shared__ Shared<T> shared;
  const AttentionProblem& p = call.p;
  const TaskBlock own(call.key_tasks, call.key_task_count);
  const Task task = own.task;
  const int kv_head = own.rest / panels, column = own.rest % panels * kSums * kTile;
  const int group = static_cast<int>(p.heads / p.kv_heads), width = static_cast<int>(of_values ? p.value_dim : p.head_dim);
  Tile<T> sums[kSums];
  clear(sums);
  for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const Head head(p, task.sequence, h);
    const GradientTile<T, second> tile(call, g, head);
    const Plane mask(p.mask, nullptr, head);
    const Range queries = query_range(p, head, task.first, tile_end(task.first, head.keys) - 1);
    for (int row = queries.begin - queries.begin % kTile; row < queries.end; row += kTile) {
      const Place at{row, task.first};
      const uint32_t seen = seen_pairs(p, head, mask, at);
      note_live(p, g, head, row, shared);
      if (!__syncthreads_or(seen != 0)) continue;
      Weights<T> weights;
      tile.template compute<of_values>(at, seen, true, shared, weights);
      const auto add = [&](const Tile<T>& of, const AttentionRows& rows) {
        add_values<false>(sums, of, tile.of_queries(rows, at, shared), column, width, shared);
      };
      if constexpr (of_values) {
        add(second ? weights.moved : weights.p, g.dy.out);
        if constexpr (second) add(weights.p, g.tdy.out);
      } else {
        add(second ? weights.td : weights.d, g.x.q);
        if constexpr (second) add(weights.d, g.t.q);
      }
    }
  }
  const Head head(p, task.sequence, kv_head * group);
  // This thread's rows of the result are keys, by the position that its queries have in a tile of scores.
  store_tiles(sums, result, p.dtype, head.first_key + task.first, tile_end(task.first, head.keys) - task.first, kv_head, column,
              width, [&](int) { return of_values ? T(1) : static_cast<T>(p.scale); });
}

template <typename T, bool second, int kSums>
void launch_gradient(const Call& call, const Cotangents& g, const AttentionOperands& d, char of, cudaStream_t stream) {
  const int panels = panels_of(of == 'v' ? call.p.value_dim : call.p.head_dim, kSums);
  const dim3 grid = of == 'q' ? row_grid(call, panels) : key_grid(call, panels);
  const AttentionRows& result = of == 'q' ? d.q : of == 'k' ? d.k : d.v;
  if (result.data == nullptr || grid.x == 0) return;
  attention::launch_kernel("attention: gradient",
                           of == 'q'   ? query_gradient<T, second, kSums>
                           : of == 'k' ? key_gradient<T, second, false, kSums>
                                       : key_gradient<T, second, true, kSums>,
                           grid, kThreads, 0, stream, call, g, result, panels);
}

template <typename T, bool second>
void launch_gradients(const Call& call, const Cotangents& g, const AttentionOperands& d, cudaStream_t stream) {
  for (const char of : {'q', 'k', 'v'}) {
    if constexpr (sizeof(T) == 4) {
      if (has_two_sums<T>(of == 'v' ? call.p.value_dim : call.p.head_dim)) {
        launch_gradient<T, second, 2>(call, g, d, of, stream);
        continue;
      }
    }
    launch_gradient<T, second, 1>(call, g, d, of, stream);
  }
}

}  // namespace deckle::kernels::cuda::general
