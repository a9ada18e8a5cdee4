// dQ = scale dS K, where key_gradients has left dS^T in memory: one product a tile, as a matrix multiplication that knows which
// tiles the mask leaves out. A block owns 128 query rows of one head, 64 a warpgroup.
//
// FLOP: 2 M N D; bytes: 2 M N of dS^T once, and 128 D a tile of 64 keys from L2. Both operands come from shared memory, dS^T
// transposed: 10 KB for 128 clocks of products.
//
// Instances: D = 256. S = 4k: the whole backward 541 and 542 TFLOP/s, 443 and 447 with query_gradients in its place (H200, one
// run of attention_backward_timing; 2026-11-23, 2748c468).
#pragma once

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

template <Element element_, int D_, int stages_>
struct ScoreProduct {
  static constexpr Element element = element_;
  static constexpr int D = D_;
  static constexpr int N = 64;  // keys of a tile
  static constexpr int warpgroups = 2, M = 64 * warpgroups;
  static constexpr int stages = stages_;
  static constexpr int threads = 384;
  static constexpr Registers registers = registers_of(2, true);

  struct Shared {
    tile::SharedTile<N, 64> scores[stages][warpgroups];
    tile::SharedTile<N, D> k[stages];
    tile::SharedTile<M, D> grad_q;
    WorkQueue queue;
    arch::Barrier full[stages], empty[stages];
  };
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes);
};

/// The loader, one thread.
template <class Shape>
__device__ __forceinline__ void load_score_work(typename Shape::Shared& shared, const BackwardArguments& args) {
  constexpr int N = Shape::N;
  Ring<kWorkSlots> slot;
  Ring<Shape::stages> ring;
  for (;; slot.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) return;
    const int plane = work.sequence.index * args.heads + work.head - args.first_plane, kv_head = work.head / args.group;
    for (int i = 0; i < work.walk.count; ++i, ring.advance()) {
      arch::wait(shared.empty[ring.slot], ring.parity ^ 1);
      arch::expect_bytes(shared.full[ring.slot], sizeof(shared.scores[0]) + sizeof(shared.k[0]));
#pragma unroll
      for (int w = 0; w < Shape::warpgroups; ++w) {
        arch::load_box(shared.scores[ring.slot][w].address(), args.score_gradients, shared.full[ring.slot],
                       work.tile * Shape::M + 64 * w, (work.walk.first + i) * N, plane, 0, arch::CacheHint::evict_first);
      }
      tile::load_tile(shared.k[ring.slot], args.k, shared.full[ring.slot], work.keys.row + i * N, kv_head, work.keys.batch,
                      arch::CacheHint::evict_last);
    }
    arch::arrive(shared.queue.issued[slot.slot]);
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) query_gradients_of_scores(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, stages = Shape::stages;
  auto& shared = block_shared<typename Shape::Shared>();
  arch::wait_for_dependencies();
  arch::launch_dependents();

  if (threadIdx.x == 0) {
    init_queue(shared.queue, 8);
    for (int i = 0; i < stages; ++i) {
      arch::init_barrier(shared.full[i], 1);
      arch::init_barrier(shared.empty[i], 8);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<Shape::registers.producer>();
    if (threadIdx.x == 256) load_score_work<Shape>(shared, args);
    if (threadIdx.x == 256 + 32) schedule<false, M, N>(shared.queue, args, args.heads);
    return;
  }
  arch::grow_registers<Shape::registers.consumer>();
  const int thread = threadIdx.x & 127;
  const bool first_lane = (thread & 31) == 0;
  Ring<kWorkSlots> slot;
  Ring<stages> ring;
  for (;; slot.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    const SequencePair& s = work.sequence;
    // Key tiles of the block, and of these the ones with a row of this warpgroup: others were never written.
    const Walk own = walk_of_queries(s, work.tile * M + 64 * warpgroup, 64, N);
    const int count = arch::uniform(work.walk.count), first = arch::uniform(own.count > 0 ? own.first - work.walk.first : 0);
    const int last = arch::uniform(first + own.count);
    const auto skip = [&] {
      arch::wait(shared.full[ring.slot], ring.parity);
      arch::release(shared.empty[ring.slot]);
      ring.advance();
    };
    float dq[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dq[i] = 0.0f;
    int j = 0;
#pragma unroll 1
    for (; j < first; ++j) skip();
    Ring<stages> before = ring;
    tile::settle(dq);
#pragma unroll 1
    for (; j < last; ++j) {
      arch::wait(shared.full[ring.slot], ring.parity);
      tile::begin();
      tile::multiply_shared_transposed<Shape::element, D, N, false>(
          dq, tile::operand(shared.scores[ring.slot][warpgroup].address(), N), tile::operand(shared.k[ring.slot].address(), N));
      tile::commit();
      tile::wait<1>();  // the batch before has read its tiles
      arch::arrive_if(shared.empty[before.slot], j > first && first_lane);
      before = ring;
      ring.advance();
    }
    tile::wait(dq);
    arch::arrive_if(shared.empty[before.slot], last > first && first_lane);
#pragma unroll 1
    for (; j < count; ++j) skip();

    // A dead row is zero whatever it computed.
    const int live_row = work.tile * M + 64 * warpgroup + tile::accumulator_row(thread) - s.live_first;
    const bool upper_live = static_cast<uint32_t>(live_row) < s.live_rows,
               lower_live = static_cast<uint32_t>(live_row + 8) < s.live_rows;
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dq[i] = ((i & 2) ? lower_live : upper_live) ? dq[i] * args.scale : 0.0f;
    if (first_lane) arch::wait_stores_read();  // of the tile before
    __syncwarp();
    tile::store_accumulators<Shape::element, D>(shared.grad_q.address(), M, 64 * warpgroup, thread, dq);
    arch::fence_shared_for_async();
    __syncwarp();
    if (first_lane) {
      const int row = 64 * warpgroup + 16 * (thread >> 5);
      tile::store_rows<D>(shared.grad_q, row, args.grad_q, work.queries.row + row, work.head, work.queries.batch);
      arch::commit_stores();
    }
    arch::release(shared.queue.done[slot.slot]);
  }
  arch::wait_stores();
}

}  // namespace deckle::kernels::cuda::attention
