// dK and dV of attention. One thread block owns a tile of N keys of one kv head; its warpgroups own 64 keys each and never meet.
//
//   for each query head of the group, each tile of M queries that attend the tile:
//     S^T = K Q^T      P^T = 2^(scale log2e S^T - lse2)      dV += P^T dO
//     dP^T = V dO^T    dS^T = P^T (dP^T - delta)             dK += dS^T Q
//   dK *= scale
//
// Transposed scores make P^T and dS^T register operands: nothing but the epilogue writes shared memory.
// FLOP: 8 M N D per tile. Bytes per tile: 4 M D from L2. MUFU: M N / 16 clocks of 2 M N D / 1024.
// Instances: D = 64, 128 (backward_config.cuh); larger ones are in backward_keys_split.cuh.
//
// clang-format off
// Ladder. TFLOP/s of the whole backward by 10 M N D, bf16, 16,384 tokens, 2048 / D heads, unless said otherwise;
// attention_backward_timing on one H200, 2026-11-21. Numbers joined by "to" come from one run; others vary by 5 % with the
// machine lent and its clock.
//   1  a block a tile; S(j+1) issued ahead of dV(j) and dK(j):          D = 128 S = 16k 497, S = 512 306;
//                                                                       512 sequences of mean 58, D = 64: 45
//   2  short sequences by their own kernel:                             those 512 sequences 60
//   3  persistent blocks, k and v double buffered, a scheduler warp:    95; but work drawn two ahead may wait behind long work:
//                                                                       causal with 4 kv heads 405 to 350
//   4  drawn when the loader has issued the work before; kernels
//      started beside their predecessors:                               causal S = 4k 424 to 450, 4 kv heads 422
//   5  at least 16 heads together where tiles differ in cost; short
//      work drawn ahead:                                                4 kv heads 458, the 512 sequences 112
// Tried at D = 64, S = 16k full/causal, with the same dQ kernel:
//      96 queries, own                                                  434/417
//      128 queries, others (kept)                                       439/428
//      three warpgroups, 64 queries, others                             426/415
// A bounded wait with a suspend hint in place of the plain one costs 5 to 10 %: never time a build that has it.
// Limit at D = 128: the tensor pipe is 88 % busy at 1.74 GHz when the kernel runs alone (ncu); in a stream of backwards the
// card's power lowers the clock to 1.6 GHz. What separates it from a one-pass kernel is 14 M N D executed for 10
// counted.
// clang-format on
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/backward_key_tiles.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

/// What runs under the exponentials of a warpgroup.
enum class Overlap {
  own,     // its own dV(j), dK(j): S(j+1) is issued ahead of them. Needs D + 3 M / 2 registers
  others,  // the products of the other warpgroups: S, dP, dV, dK of one tile in turn. Registers for three warpgroups at D = 64
};

template <Element element_, int D_, int queries_, int warpgroups_, int stages_, int kv_buffers_, Overlap overlap_>
struct KeyGradients {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = D_;
  static constexpr int M = queries_;  // a tile of queries
  static constexpr int warpgroups = warpgroups_;
  static constexpr Overlap overlap = overlap_;
  static constexpr int N = 64 * warpgroups;
  static constexpr int stages = stages_;
  static constexpr int k_buffers = kv_buffers_, v_buffers = kv_buffers_;
  static constexpr int threads = 128 * (warpgroups + 1);
  static constexpr Registers registers = registers_of(warpgroups, D > 64 || M > 96);

  using Shared = KeyTiles<N, M, D, D, stages, k_buffers, v_buffers>;
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes);
  static_assert(k_buffers > 1, "the buffer of one work is released during the next");
};

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) key_gradients(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, stages = Shape::stages, kFirst = Shape::warpgroups * 128;
  constexpr Element element = Shape::element;
  auto& shared = block_shared<typename Shape::Shared>();
  arch::wait_for_dependencies();
  arch::launch_dependents();

  if (threadIdx.x == 0) {
    shared.init_barriers(4 * Shape::warpgroups, 0);
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<Shape::registers.producer>();
    if (threadIdx.x == kFirst) load_key_work<Shape>(shared, args);
    if (threadIdx.x == kFirst + 32) schedule<true, N, M>(shared.queue, args, args.heads / args.group);
    return;
  }
  arch::grow_registers<Shape::registers.consumer>();
  const bool first_lane = threadIdx.x % 32 == 0;

  Ring<kWorkSlots> slot;
  Ring<Shape::k_buffers> kv;
  Ring<stages> ring;  // of the newest tile in use
  uint32_t leaving = 0;
  bool any_leaving = false;  // the results of the work before are on their way out of buffer `leaving`
  const auto release_leaving = [&] {
    arch::wait_stores_read();
    arch::arrive_if(shared.k_empty[leaving], any_leaving && first_lane);
    arch::arrive_if(shared.v_empty[leaving], any_leaving && first_lane);
    any_leaving = false;
  };
  for (;; slot.advance(), kv.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    arch::wait(shared.k_full[kv.slot], kv.parity);
    arch::wait(shared.v_full[kv.slot], kv.parity);
    int remaining = work.walk.count * args.group;
    KeySteps<Shape> steps(shared, args, work, kv.slot, kv.slot, 64 * warpgroup);
    float dk[D / 2], dv[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dk[i] = dv[i] = 0.0f;

    if (remaining > 0) {
      float score[M / 2], dp[M / 2];
      uint32_t p[M / 4];
      if constexpr (Shape::overlap == Overlap::others) {
        release_leaving();
#pragma unroll 1
        for (; remaining > 0; --remaining) {
          steps.forget_operands();
          const auto scores_under_way = steps.issue_scores(score, ring);
          const auto dp_under_way = steps.issue_dp(dp, ring);
          scores_under_way.template wait<1>();
          steps.probabilities(score, ring);
          tile::settle(score);
          arch::wait(shared.grad_full[ring.slot], ring.parity);  // keeps the exponentials above the next wait
          dp_under_way.wait();
          uint32_t ds[M / 4];
          steps.score_gradients(ds, p, score, dp, ring);
          tile::settle(dv, dk, p, ds);
          tile::begin();
          tile::multiply<element, D, M, false>(dv, p, steps.grad_at(ring));
          tile::multiply<element, D, M, false>(dk, ds, steps.q_at(ring));
          tile::commit(dv, dk, p, ds).wait();
          arch::release(shared.grad_empty[ring.slot]);
          arch::release(shared.q_empty[ring.slot]);
          ring.advance();
        }
      } else {
        const auto first_scores = steps.issue_scores(score, ring);
        const auto first_dp = steps.issue_dp(dp, ring);
        release_leaving();
        first_scores.template wait<1>();
        steps.probabilities(score, ring);
        tile::pack_operand<element>(p, score);
        first_dp.wait();
        const auto iterate = [&](auto more) {
          constexpr bool kMore = decltype(more)::value;
          uint32_t ds[M / 4];
          steps.forget_operands();
          Ring<stages> next = ring;
          next.advance();
          steps.score_gradients(
              dp, [&](int k) { return make_float4(score[4 * k], score[4 * k + 1], score[4 * k + 2], score[4 * k + 3]); }, ring);
          tile::pack_operand<element>(ds, dp);
          tile::settle(dv, dk, p, ds);
          if constexpr (kMore) {
            steps.issue_scores(score, next);
          } else {
            tile::begin();
          }
          tile::multiply<element, D, M, false>(dv, p, steps.grad_at(ring));
          const auto dv_under_way = tile::commit(dv, p);
          tile::multiply<element, D, M, false>(dk, ds, steps.q_at(ring));
          const auto dk_under_way = tile::commit(dk, ds);
          if constexpr (kMore) {
            tile::wait<2>(score);
            steps.probabilities(score, next);
            tile::settle(score);
            arch::wait(shared.grad_full[next.slot], next.parity);  // keeps the exponentials above the next wait
            dv_under_way.template wait<1>();
            arch::release(shared.grad_empty[ring.slot]);
            const auto next_dp = steps.issue_dp(dp, next);
            dk_under_way.template wait<1>();
            arch::release(shared.q_empty[ring.slot]);
            tile::pack_operand<element>(p, score);
            tile::settle(p);
            arch::wait(shared.grad_full[next.slot], next.parity);
            next_dp.wait();
          } else {
            tile::wait(dv, dk, p, ds);
            arch::release(shared.grad_empty[ring.slot]);
            arch::release(shared.q_empty[ring.slot]);
          }
          ring = next;
        };
#pragma unroll 1
        for (; remaining > 1; --remaining) iterate(std::true_type{});
        iterate(std::false_type{});
      }
    } else {
      release_leaving();
    }
    store_key_gradients<Shape>(shared, args, work, kv.slot, warpgroup, dk, dv);
    arch::release(shared.queue.done[slot.slot]);
    leaving = kv.slot;
    any_leaving = true;
  }
  arch::wait_stores();
}

}  // namespace deckle::kernels::cuda::attention
