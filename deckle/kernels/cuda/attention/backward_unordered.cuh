// dQ, dK and dV in one pass: 5 products instead of the two kernels' 7, with an unordered float32 sum for dQ, so results differ in
// their last bits from run to run. Only where the caller allows it.
//
// As key_gradients, with dQ += dS K besides: dS^T goes through shared memory to become dS (rows are queries), each of the two
// warpgroups multiplies it with half the columns of K, and its 64 x 64 tile of dQ is added to global memory by the copy engine
// from a staging buffer.
//
// Sums: float32, per (head, tile of M live rows) [warpgroup][i][thread] float4, accumulators 4i..4i+3 of the thread; indexed as
// the row statistics are. Zeroed before, rounded by round_query_gradients after.
//
// Schedule of a warpgroup, tile j: exponentials under dP(j); dV(j), dK(j); S(j+1) behind them; both warpgroups meet; dQ(j);
// dP(j+1).
//
// Against the two kernels, TFLOP/s in one run, each twice (run g of benchmarks/results/attention_cuda_choices.json): S = 16k 508
// to 514 / 549 to 554, causal 485 / 526; S = 8k 490 / 532 to 541, causal 461 / 436 to 439; S = 4k 476 to 480 / 511; S = 2k 452 /
// 459 to 469; S = 512 335 / 287: zeroing and rounding the sums costs more there than two products, so backward_plan.cpp decides
// by the number of keys. As loops without loads: 560 and 613.
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/backward_key_tiles.cuh"

namespace deckle::kernels::cuda::attention {

template <Element element_>
struct AllGradients {
  static constexpr Element element = element_;
  static constexpr int D = 128, Dv = 128, M = 64, N = 128;
  static constexpr int warpgroups = 2;
  static constexpr int stages = 2;
  static constexpr int kv_buffers = 1;
  static constexpr int threads = 384;
  static constexpr int sum_bytes = 64 * 64 * 4;  // of one warpgroup and tile

  struct Shared : KeyTiles<N, M, D, D, stages, kv_buffers> {
    tile::SharedTile<M, N> ds[2];
    alignas(128) float4 staged[warpgroups][8][128];
    arch::Barrier staged_full[warpgroups], staged_empty[warpgroups];
  };
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes);
};

/// dS^T, packed, to a tile of queries x keys, transposed on the way: warpgroup w fills the panel of its 64 keys.
template <class Tile>
__device__ __forceinline__ void store_score_gradients(const Tile& tile, int warpgroup, int thread,
                                                      const uint32_t (&ds)[Tile::rows / 4]) {
  const int key = 16 * (thread >> 5) + 8 * ((thread >> 3) & 1), query = 8 * ((thread >> 4) & 1) + (thread & 7);
  const uint32_t address =
      tile.address() + warpgroup * Tile::panel_bytes + query * tile::kPanelRowBytes + (((key / 8) ^ (query & 7)) << 4);
#pragma unroll
  for (int block = 0; block < Tile::rows / 16; ++block) {
    arch::store_matrices_transposed(address + block * (16 * tile::kPanelRowBytes), ds[4 * block], ds[4 * block + 1],
                                    ds[4 * block + 2], ds[4 * block + 3]);
  }
}

/// Adds the staged tiles of one warpgroup to the sums, one thread.
template <class Shape>
__device__ __forceinline__ void add_staged(typename Shape::Shared& shared, const BackwardArguments& args, int warpgroup) {
  Ring<kWorkSlots> slot;
  uint32_t parity = 0;
  for (;; slot.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    for (int g = 0; g < args.group; ++g) {
      float* sums = args.sums + (work.statistics + g * args.statistics_rows) * Shape::D + warpgroup * (Shape::sum_bytes / 4);
      for (int t = 0; t < work.walk.count; ++t, sums += Shape::M * Shape::D, parity ^= 1) {
        arch::wait(shared.staged_full[warpgroup], parity);
        arch::reduce_add_bulk(sums, arch::shared_address(shared.staged[warpgroup]), Shape::sum_bytes);
        arch::commit_stores();
        arch::wait_stores_read();
        arch::arrive(shared.staged_empty[warpgroup]);
      }
    }
    arch::arrive(shared.queue.done[slot.slot]);
  }
  arch::wait_stores();
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) all_gradients(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, stages = Shape::stages;
  constexpr Element element = Shape::element;
  auto& shared = block_shared<typename Shape::Shared>();
  arch::wait_for_dependencies();
  arch::launch_dependents();

  constexpr int kFirst = Shape::warpgroups * 128;
  if (threadIdx.x == 0) {
    shared.init_barriers(4 * Shape::warpgroups, 2);  // two adders
    for (int i = 0; i < Shape::warpgroups; ++i) {
      arch::init_barrier(shared.staged_full[i], 4);
      arch::init_barrier(shared.staged_empty[i], 1);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<24>();
    if (threadIdx.x == kFirst) load_key_work<Shape>(shared, args);
    if (threadIdx.x == kFirst + 32) schedule<true, N, M>(shared.queue, args, args.heads / args.group);
    if (threadIdx.x == kFirst + 64) add_staged<Shape>(shared, args, 0);
    if (threadIdx.x == kFirst + 96) add_staged<Shape>(shared, args, 1);
    return;
  }
  arch::grow_registers<240>();
  const int thread = threadIdx.x & 127;

  Ring<kWorkSlots> slot;
  Ring<Shape::kv_buffers> kv;
  Ring<stages> ring;  // of the newest tile in use
  uint32_t buffer = 0, staged_parity = 1;
  for (;; slot.advance(), kv.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    arch::wait(shared.kv_full[kv.slot], kv.parity);
    int remaining = work.walk.count * args.group;
    KeySteps<Shape> steps(shared, args, work, kv.slot, 64 * warpgroup);
    // Half the columns of k, of all its rows, for dQ.
    const uint32_t dq_operand = tile::operand(shared.k[0].address() + warpgroup * (N * tile::kPanelRowBytes), N).low;
    const uint32_t ds_operand = tile::operand(shared.ds[0].address(), M).low;
    constexpr uint32_t ds_step = sizeof(shared.ds[0]) / 16;
    float dk[D / 2], dv[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dk[i] = dv[i] = 0.0f;

    if (remaining > 0) {
      float score[M / 2], dp[M / 2];
      uint32_t p[M / 4];
      steps.issue_scores(score, ring);
      steps.issue_dp(dp, ring);
      arch::wgmma_wait<1>();
      arch::pin(score);
      const auto iterate = [&](auto more) {
        constexpr bool kMore = decltype(more)::value;
        uint32_t ds[M / 4];
        steps.forget_operands();
        Ring<stages> next = ring;
        next.advance();
        steps.probabilities(score, ring);
        tile::pack_operand<element>(p, score);
        arch::pin(score);
        arch::pin(p);
        arch::wait(shared.grad_full[ring.slot], ring.parity);  // keeps the exponentials above the next wait
        arch::wgmma_wait<0>();
        arch::pin(dp);
        steps.score_gradients(ds, score, dp, ring);
        store_score_gradients(shared.ds[buffer], warpgroup, thread, ds);
        arch::pin(dv);
        arch::pin(dk);
        arch::pin(p);
        arch::pin(ds);
        arch::wgmma_fence();
        tile::multiply<element, D, M, false>(dv, p, steps.grad_at(ring));
        arch::wgmma_commit();
        tile::multiply<element, D, M, false>(dk, ds, steps.q_at(ring));
        arch::wgmma_commit();
        arch::wgmma_wait<1>();
        arch::pin(dv);
        arch::pin(p);
        arch::release(shared.grad_empty[ring.slot]);
        if constexpr (kMore) {
          steps.issue_scores(score, next);
          arch::wgmma_wait<1>();
        } else {
          arch::wgmma_wait<0>();
        }
        arch::pin(dk);
        arch::pin(ds);
        arch::release(shared.q_empty[ring.slot]);
        arch::fence_shared_for_async();
        arch::named_sync<256>(1);  // both halves of dS are there
        auto& dq = dp;
        arch::wgmma_fence();
        tile::multiply_shared<element, 64, N, M, true>(dq, {ds_operand + buffer * ds_step}, {dq_operand});
        arch::wgmma_commit();
        arch::wgmma_wait<0>();
        if constexpr (kMore) arch::pin(score);
        arch::pin(dq);
        arch::wait(shared.staged_empty[warpgroup], staged_parity);
        staged_parity ^= 1;
#pragma unroll
        for (int i = 0; i < 8; ++i)
          shared.staged[warpgroup][i][thread] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
        arch::fence_shared_for_async();
        arch::release(shared.staged_full[warpgroup]);
        if constexpr (kMore) steps.issue_dp(dp, next);
        ring = next;
        buffer ^= 1;
      };
#pragma unroll 1
      for (; remaining > 1; --remaining) iterate(std::true_type{});
      iterate(std::false_type{});
    }

    arch::named_sync<256>(1);  // both warpgroups have read all of k for dQ
    store_key_gradients<Shape>(shared, args, work, kv.slot, warpgroup, dk, dv);
    arch::release(shared.queue.done[slot.slot]);
    arch::wait_stores_read();
    arch::release(shared.kv_empty[kv.slot]);
  }
  arch::wait_stores();
}

}  // namespace deckle::kernels::cuda::attention
