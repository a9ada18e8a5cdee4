// Steps of all_gradients beside its products: dS to shared memory, dQ to its sums in turn, dK and dV to memory. `Shape` is an
// AllGradients.
#pragma once

#include "deckle/kernels/cuda/attention/backward_key_tiles.cuh"

namespace deckle::kernels::cuda::attention {

/// dS^T, packed, to a tile of queries x keys, transposed on the way: warpgroup w fills the panel of its 64 keys.
template <class Tile>
__device__ __forceinline__ void store_score_gradients(const Tile& tile, int warpgroup, int thread,
                                                      const uint32_t (&ds)[Tile::rows / 4]) {
  const uint32_t address = transposed_address(tile, warpgroup, thread);
#pragma unroll
  for (int block = 0; block < Tile::rows / 16; ++block) {
    arch::store_matrices_transposed(address + block * (16 * tile::kPanelRowBytes), ds[4 * block], ds[4 * block + 1],
                                    ds[4 * block + 2], ds[4 * block + 3]);
  }
}

/// How many key tiles add to the query tile from live row `query` on before the work's does.
template <class Shape>
__device__ __forceinline__ int turn_of(const Work& work, int query) {
  const SequencePair& s = work.sequence;
  if (!work.rises) return work.tile - max(0, s.live_first + query + s.band.low) / Shape::N;
  const int last_row = s.live_first + min(query + Shape::M, s.live_rows) - 1;
  return min(s.key_rows - 1, last_row + s.band.high) / Shape::N - work.tile;
}

/// dS of a warpgroup's keys to the gradient of the bias; one thread. `turn`: how many tiles came before, of all works; `t`: the
/// tile in its walk; `g`: the head in its group.
template <class Shape>
__device__ __forceinline__ void store_bias_gradient(typename Shape::Shared& shared, const BackwardArguments& args,
                                                    const Work& work, int warpgroup, uint32_t turn, int t, int g) {
  const uint32_t slot = turn & 1;  // of two
  arch::wait(shared.ds_full[slot], turn >> 1 & 1);
  if (args.wants_grad_bias) {
    const int head = work.head * args.group + g, query = work.sequence.live_first + (work.walk.first + t) * Shape::M;
    const uint32_t from = shared.ds[slot].address() + warpgroup * shared.ds[0].panel_bytes;
    if (const BiasPanels& panels = args.panels; panels.starts != nullptr) {
      arch::store_bulk(panels.gradients + int64_t{head - panels.first_head} * panels.head_rows * kPanelKeys +
                           panel_part<Shape>(args, work, warpgroup, query),
                       from, shared.ds[0].panel_bytes);
    } else {
      arch::store_box(args.grad_bias, from, work.tile * Shape::N + warpgroup * tile::kPanelColumns, query, head,
                      work.sequence.index);
    }
    arch::commit_stores();
    arch::wait_stores_read();
  }
  arch::arrive(shared.ds_empty[slot]);
}

/// Adds the staged tiles of one warpgroup to the sums when it is their turn; one thread.
template <class Shape>
__device__ __forceinline__ void add_in_turn(typename Shape::Shared& shared, const BackwardArguments& args, int warpgroup) {
  constexpr int M = Shape::M;
  Ring<kWorkSlots> slot;
  uint32_t turns = 0;
  for (;; slot.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    for (int g = 0; g < args.group; ++g) {
#pragma unroll 1
      for (int i = 0; i < work.walk.count; ++i, ++turns) {
        arch::forget_memory();  // reads the work again: there are 24 registers
        int t = work.rises ? i : work.walk.count - 1 - i, before = 0;
        if constexpr (kScored<Shape>) {
          if (args.walks.visits != nullptr) {
            const Visit visit = args.walks.visits[walk_of(args, work) * args.walks.longest + t];
            t = visit.tile;
            before = visit.turn();
          }
        }
        if constexpr (Shape::biased) {
          store_bias_gradient<Shape>(shared, args, work, warpgroup, turns, t, g);
          arch::forget_memory();
        }
        const int tile = static_cast<int>((work.statistics + g * args.statistics_rows) / M) + t;
        if (!kScored<Shape> || args.walks.visits == nullptr) before = turn_of<Shape>(work, (work.walk.first + t) * M);
        float* sums = args.query_sums + int64_t{tile} * (M * Shape::D) + warpgroup * (Shape::sum_bytes / 4);
        int* turn = args.turns + kTurnStride * (2 * tile + warpgroup);
        const uint32_t from = arch::shared_address(shared.staged[warpgroup]);
        arch::wait(shared.staged_full[warpgroup], turns & 1);
        if (before == 0) {
          arch::store_bulk(sums, from, Shape::sum_bytes);
        } else {
          while (arch::load_acquire(turn) != before) {
          }
          arch::fence_global_for_async();
          arch::reduce_add_bulk(sums, from, Shape::sum_bytes);
        }
        arch::commit_stores();
        arch::wait_stores_read();
        arch::arrive(shared.staged_empty[warpgroup]);
        arch::wait_stores();
        arch::fence_global_for_async();
        arch::store_release(turn, before + 1);
      }
    }
    arch::arrive(shared.queue.done[slot.slot]);
  }
  arch::wait_stores();
}

/// Rounds scale * c[64 x D] of a warpgroup and stores row i of it to to + i * stride, `rows` of them and `columns` at most. The
/// four lanes that share a row trade their pairs of columns, so that each stores 16 bytes.
template <Element element, int D>
__device__ __forceinline__ void store_rows_directly(uint16_t* to, int64_t stride, int rows, int columns, float scale, int thread,
                                                    const float (&c)[D / 2]) {
  const int lane = thread & 3, row = tile::accumulator_row(thread);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool exists = row + 8 * half < rows;
    uint16_t* address = to + (row + 8 * half) * stride + 8 * lane;
#pragma unroll
    for (int block = 0; block < D / 32; ++block) {
      uint32_t w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = c + 4 * (4 * block + i) + 2 * half;
        w[i] = arch::pack<element>(scale * pair[0], scale * pair[1]);
      }
      arch::transpose_quad(w, lane);
      if (exists && 32 * block + 8 * lane < columns)
        *reinterpret_cast<uint4*>(address + 32 * block) = make_uint4(w[0], w[1], w[2], w[3]);
    }
  }
}

/// The same in float32, as it is.
template <int D>
__device__ __forceinline__ void store_rows_directly(float* to, int rows, int thread, const float (&c)[D / 2]) {
  const int row = tile::accumulator_row(thread);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float* address = to + (row + 8 * half) * D + tile::accumulator_column(thread);
    if (row + 8 * half >= rows) continue;
#pragma unroll
    for (int block = 0; block < D / 8; ++block)
      *reinterpret_cast<float2*>(address + 8 * block) = make_float2(c[4 * block + 2 * half], c[4 * block + 2 * half + 1]);
  }
}

/// dK and dV of a warpgroup's 64 keys to their tensors, or to the sums of this part.
template <class Shape>
__device__ __forceinline__ void store_key_results(const BackwardArguments& args, const Work& work, int warpgroup,
                                                  const float (&dk)[Shape::D / 2], const float (&dv)[Shape::D / 2]) {
  constexpr int D = Shape::D;
  const int thread = threadIdx.x & 127, first = work.tile * Shape::N + 64 * warpgroup, rows = work.sequence.key_rows - first;
  const bool ragged = args.key_offsets != nullptr;
  const int64_t row = ragged ? work.sequence.key_start + first : first, batch = ragged ? 0 : work.sequence.index;
  if (args.parts == 1) {
    const auto at = [&](const AttentionTensor& t) {
      return static_cast<uint16_t*>(t.data) + batch * t.batch_stride + row * t.row_stride + work.head * t.head_stride;
    };
    store_rows_directly<Shape::element, D>(at(args.grad_v_rows), args.grad_v_rows.row_stride, rows, args.value_dim, 1.0f, thread,
                                           dv);
    store_rows_directly<Shape::element, D>(at(args.grad_k_rows), args.grad_k_rows.row_stride, rows, args.head_dim, args.scale,
                                           thread, dk);
  } else {
    float* sums = args.key_sums + (work.head * args.key_sums_rows + batch * args.key_rows + row) * D;
    store_rows_directly<D>(sums, rows, thread, dk);
    store_rows_directly<D>(sums + args.heads / args.group * args.key_sums_rows * D, rows, thread, dv);
  }
}

}  // namespace deckle::kernels::cuda::attention
