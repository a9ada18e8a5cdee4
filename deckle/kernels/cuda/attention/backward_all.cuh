// dQ, dK and dV of attention in one pass: five products a tile, and a sum for dQ in a fixed order, so results are bit-equal from
// run to run.
//
// A block owns N keys of one kv head and walks the query tiles that attend them, as key_gradients does, but computes dQ^T = K^T
// dS besides: dS^T of both warpgroups goes through shared memory, and each multiplies it with its share (D = 128: of the columns
// of K; D = 64: of the queries). The float32 tile then goes to a staging buffer, from where one thread adds it to global memory
// by the copy engine.
//
// The order. A counter for each query tile and warpgroup says how many key tiles have been added; a key tile waits until all
// before it that attend the query tile are in (the first stores instead of adding, so nothing is zeroed before). Blocks draw
// their key tiles from one counter in the order in which these add, so a block only ever waits for one that runs or has ended.
// There are two orders. Ascending key tiles walk the query tiles from the last to the first: whatever the mask, key tile n - 1
// then comes to a query tile no later than key tile n does. Where all start at the last query tile (full and causal masks),
// blocks of one head that start together trail each other by the time an addition takes, about 2 us. Descending key tiles walk
// from the first to the last ("rise"): under a causal mask each starts at its own first query tile, where the one after it has
// already been, and nobody waits; but the longest walks come last, so the last heads of a launch do not rise. See write_work.
//
// Sums: [head, tile of M live rows][warpgroup][i][thread] float4, accumulators 4i..4i+3 of the thread; indexed as the row
// statistics are. Rounded by round_query_gradients afterwards.
//
// Schedules of a warpgroup, tile j; "|" is a wait for all that stands before it, unless it says for what:
//   meeting  dP(j) over exp(j) | dS(j) stored, dV(j); both warpgroups meet; dQ(j), dK(j) | dV, dQ: dQ(j) staged under dK(j) |
//   S(j+1) |
//   apart    exp(j) over dP(j) | dS(j) stored; in its turn: dV(j), dK(j), dQ(j-1) | dV, dK: S(j+1) | dQ: dQ(j-1) staged | dP(j+1)
// "apart" asks for dS of the other warpgroup a tile late and lets the warpgroups issue in turn, so that one is half a tile behind
// the other, and its exponentials run under the other's products; it wins at D = 64, where exponentials take long, and costs a
// sum of dQ by itself at each walk's end. "meeting" has fewer registers in use at once, which hardly matters now: tiles of 80
// queries fit if P is rounded as soon as it is computed, and read a tenth less from shared memory; but with P in float32 those of
// 64 are as fast, waste less of a sequence's end and of a diagonal, and leave room for the next work's keys.
//
// Ladder, TFLOP/s by 10 M N D of the whole backward, D = 128, S = 16k full / causal, each line from one run of
// attention_backward_timing on an H200, 2026-11-22, b5928567 to 64774917; the runs were not kept (they differ by 5 %):
//   two kernels, 7 products                                        523 / 500
//   64 queries: S(j+1) behind dK(j) | dP(j+1), in no order          555 / 550
//     the same in order                                            553 / 541
//   64 queries: S(j), dP(j) at the top of the tile                 557 / 545
//   80 queries: the same                                           560 / 547
//   80 queries: meeting                                            573 / 558
//   64 queries: late 527 / 528, with S(j+1) after dV(j), dK(j) 514 / 521; 80 queries: 540 / 537
// and, in another run, on a slower machine (two kernels 507 / 487), by how many heads run at once: 16: 556 / 520, 8: 573 / 526,
// 6: 576 / 544,
//   4: 579 / 536, 2: 581 / 532, 1: 575 / 515. Sixteen heads and their sums do not fit L2: 8.5 GB read and 4.9 GB written against
//   0.6 and 0.4 with two heads (ncu), and at the power limit those cost clock.
// and by attention_backward_timing on another day, D = 128, two cards (the first line of each is what ends above):
//                                                   S16k  S16k causal  S2k  S4k causal
//   80 queries, P rounded to 16 bits, never rising   566      547      505     462
//     rising, P waits as float16 times 2^15          566      561      501     470
//     64 queries, P in float32                       563      558      511     484
//     the same with two staging buffers              561      555      504     480
//   80 queries, P rounded to 16 bits, never rising   592      565      526     486
//     64 queries, P in float32, rising, the next work's keys loaded during the last tiles 582, 578, 525, 504
// D = 64, 128 queries, S = 16k: two kernels 434 / 426; dQ at the end of its own tile, S(j+1) queued behind dK(j), 526 with two
// heads at once, at the top of the tile 512. That and apart in one run, S = 16k, causal, S = 2k causal: 524, 518, 354 and 536,
// 525, 343; not in turn 535, 528, 348. D = 128 in the same run, meeting 563, 558, S = 2k 513, S = 512 364; apart 551, 549, 506,
// 348, with S(j+1) in the turn too 564, 566, 512, 359: fewer cycles, but the clock gives way.
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/backward_all_steps.cuh"
#include "deckle/kernels/cuda/attention/backward_key_tiles.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

enum class Order { meeting, apart };

/// `scored`: there may be dropout, a soft cap, slopes, masks of ranges and of bytes. `biased`: there is a bias.
template <Element element_, int D_, int queries_, Order order_, bool scored_ = false, bool biased_ = false>
struct AllGradients {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = D_, M = queries_, N = 128;
  static constexpr Order order = order_;
  static constexpr bool scored = scored_, biased = biased_;
  static_assert(!scored || order == Order::meeting, "only that schedule changes scores and clears rows that attend nothing");
  static constexpr int warpgroups = 2;
  // So that the slot of a tile also tells which buffer of dS is its own, and the phase of the staging buffer.
  static constexpr int stages = 2;
  static constexpr int k_buffers = 2, v_buffers = 1;  // v is not needed after the last dP
  static constexpr int threads = 384;
  // What reads walks, or loads and stores tiles of a bias besides, does not fit 24.
  static constexpr bool kept_in_shared = scored && M > 64;  // what dropout keeps; a register beside 64 scores is too much
  static constexpr int producer_registers = scored || biased ? 40 : 24, consumer_registers = scored || biased ? 232 : 240;
  static_assert(D == 64 || D == 128);
  static constexpr int dq_queries = D == 128 ? M : M / 2;  // of a warpgroup's tile of dQ^T, which has 64 of the D columns
  static constexpr int sum_bytes = 64 * dq_queries * 4;

  struct Shared : KeyTiles<N, M, D, D, stages, k_buffers, v_buffers> {
    tile::SharedTile<M, N> ds[2];
    alignas(128) float4 staged[warpgroups][dq_queries / 8][128];
    arch::Barrier staged_full[warpgroups], staged_empty[warpgroups];
    arch::Barrier ds_full[2], ds_empty[2];  // Order::apart
    uint32_t kept[kept_in_shared ? M / 64 : 1][kept_in_shared ? 128 * warpgroups : 1];
  };
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes);
};

/// Order::apart: the two warpgroups issue their products in turn, the first one first. Numbers of barriers are no values in
/// registers.
__device__ __forceinline__ void take_turn(int warpgroup) {
  if (warpgroup == 0) {
    arch::named_sync<256>(2);
  } else {
    arch::named_sync<256>(3);
  }
}

__device__ __forceinline__ void hand_on(int warpgroup) {
  if (warpgroup == 0) {
    arch::named_arrive<256>(3);
  } else {
    arch::named_arrive<256>(2);
  }
}

template <FeatureSet set>
using Set = std::integral_constant<FeatureSet, set>;

/// The position before one of a ring of two.
__device__ __forceinline__ Ring<2> before(const Ring<2>& at) { return {at.slot ^ 1, at.parity ^ (at.slot ^ 1)}; }

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) all_gradients(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, stages = Shape::stages, kDq = Shape::dq_queries;
  constexpr Element element = Shape::element;
  auto& shared = block_shared<typename Shape::Shared>();
  arch::wait_for_dependencies();
  arch::launch_dependents();

  constexpr int kFirst = Shape::warpgroups * 128;
  if (threadIdx.x == 0) {
    shared.init_barriers(4 * Shape::warpgroups, 2);  // two adders
    for (int i = 0; i < Shape::warpgroups; ++i) {
      arch::init_barrier(shared.ds_full[i], 4 * Shape::warpgroups);
      arch::init_barrier(shared.ds_empty[i], 4 * Shape::warpgroups + (Shape::biased ? 2 : 0));
      if constexpr (Shape::biased) arch::init_barrier(shared.bias_full[i], 1);
      arch::init_barrier(shared.staged_full[i], 4);
      arch::init_barrier(shared.staged_empty[i], 1);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<Shape::producer_registers>();
    if (threadIdx.x == kFirst) load_key_work<Shape>(shared, args);
    if (threadIdx.x == kFirst + 32) schedule<true, N, M, true, Shape::scored>(shared.queue, args, args.heads / args.group);
    if (threadIdx.x == kFirst + 64) add_in_turn<Shape>(shared, args, 0);
    if (threadIdx.x == kFirst + 96) add_in_turn<Shape>(shared, args, 1);
    return;
  }
  arch::grow_registers<Shape::consumer_registers>();
  const int thread = threadIdx.x & 127;

  Ring<kWorkSlots> slot;
  Ring<stages> ring;  // of the newest tile in use
  if (Shape::order == Order::apart && warpgroup == 1) hand_on(warpgroup);
  for (;; slot.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    const auto k = buffer_of_work<Shape::k_buffers>(slot.slot);
    const auto v = buffer_of_work<Shape::v_buffers>(slot.slot);
    arch::wait(shared.k_full[k.slot], k.parity);
    int remaining = work.walk.count * args.group;
    KeySteps<Shape> steps(shared, args, work, k.slot, 0, 64 * warpgroup);
    // dQ^T: the columns of k, all its rows, and the rows of dS that are this warpgroup's share.
    const uint32_t k_operand =
        tile::operand(shared.k[k.slot].address() + (D == 128 ? warpgroup * (N * tile::kPanelRowBytes) : 0), N).low;
    const uint32_t ds_operand = tile::operand(shared.ds[0].address(), M, D == 128 ? 0 : warpgroup * kDq).low;
    constexpr uint32_t ds_step = sizeof(shared.ds[0]) / 16;
    float dk[D / 2], dv[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dk[i] = dv[i] = 0.0f;

    if (remaining > 0) {
      float score[M / 2], dp[M / 2], dq[kDq / 2];
      uint32_t p[M / 4], ds[M / 4];
      const auto issue_dq = [&](const Ring<stages>& at) __attribute__((always_inline)) {
        if constexpr (Shape::order == Order::apart) {
          arch::wait(shared.ds_full[at.slot], at.parity);
          tile::begin();
        } else {
          arch::named_sync<256>(1);
        }
        tile::multiply_both_transposed<element, kDq, N, M, true>(dq, {k_operand}, {ds_operand + at.slot * ds_step});
        tile::commit();
      };
      const auto stage_dq = [&](const Ring<stages>& at) __attribute__((always_inline)) {
        tile::settle(dq);
        arch::wait(shared.staged_empty[warpgroup], at.slot ^ 1);
#pragma unroll
        for (int i = 0; i < kDq / 8; ++i)
          shared.staged[warpgroup][i][thread] = make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
        arch::fence_shared_for_async();
        arch::release(shared.staged_full[warpgroup]);
      };
      const auto store_ds = [&]() __attribute__((always_inline)) {
        store_score_gradients(shared.ds[ring.slot], warpgroup, thread, ds);
        tile::settle(dv, dk, p, ds);
        arch::fence_shared_for_async();
      };
      [[maybe_unused]] portable::KeptFlags<M> kept;
      [[maybe_unused]] float slope_sum = 0.0f;
      [[maybe_unused]] const auto changed_scores = [&](auto set) __attribute__((always_inline)) {
        return ChangedScores<M, decltype(set)::value>(args, work.sequence, shared.query_head[ring.slot],
                                                      work.tile * N + 64 * warpgroup, shared.first_query[ring.slot]);
      };
      // What exponentials and dS of the next tile take besides S and dP. `set`: of features.
      const auto prepare = [&](auto set) __attribute__((always_inline)) {
        constexpr FeatureSet kSet = decltype(set)::value;
        if constexpr (Shape::scored && kSet != FeatureSet::cap && kSet != FeatureSet::slopes) {
          if (kSet == FeatureSet::dropout || args.features.threshold != 0) {
            draw_kept<M>(kept, args, work.sequence.index, shared.query_head[ring.slot], work.tile * N + 64 * warpgroup,
                         shared.first_query[ring.slot]);
            if constexpr (Shape::kept_in_shared) {
#pragma unroll
              for (int i = 0; i < kept.words; ++i) shared.kept[i][threadIdx.x] = kept.word[i];
            }
          } else if constexpr (Shape::kept_in_shared) {  // a path without flags does not fit the registers at D = 64
#pragma unroll
            for (int i = 0; i < kept.words; ++i) shared.kept[i][threadIdx.x] = ~0u;
          } else {
            kept.fill();
          }
        }
        if constexpr (Shape::biased) {
          arch::wait(shared.bias_full[ring.slot], ring.parity);
          steps.add_bias(score, transposed_address(shared.ds[ring.slot], warpgroup, thread));
        }
      };
      const auto score_gradients = [&](auto set) __attribute__((always_inline)) {
        constexpr FeatureSet kSet = decltype(set)::value;
        constexpr bool kCap = kSet == FeatureSet::cap, kSlopes = kSet == FeatureSet::slopes;
        if constexpr (Shape::scored && (kCap || kSlopes)) {
          steps.score_gradients(dp, score, ring);
          const auto changed = changed_scores(set);
          if (kSlopes && args.slope_sums != nullptr) {
            changed.add_slope_gradient(slope_sum, dp);
            if ((remaining - 1) % work.walk.count == 0)
              store_slope_sum<Shape>(args, work, shared.query_head[ring.slot], slope_sum);
          }
          if constexpr (kCap) changed.change_gradients(dp, score, arch::shared_address(shared.lse2[ring.slot]));
          tile::pack_operand<element>(ds, dp);
          tile::pack_operand<element>(p, score);
          return;
        }
        if constexpr (Shape::kept_in_shared) {
          arch::forget_memory();
#pragma unroll
          for (int i = 0; i < kept.words; ++i) kept.word[i] = shared.kept[i][threadIdx.x];
        }
        if constexpr (Shape::scored) {
          steps.score_gradients(dp, score, ring, kept, args.features.keep_factor);
          if (kSet == FeatureSet::any && args.changes_scores) {
            const auto changed = changed_scores(set);
            if (args.slope_sums != nullptr) {
              changed.add_slope_gradient(slope_sum, dp);
              if ((remaining - 1) % work.walk.count == 0)
                store_slope_sum<Shape>(args, work, shared.query_head[ring.slot], slope_sum);
            }
            changed.change_gradients(dp, score, arch::shared_address(shared.lse2[ring.slot]));
          }
          tile::pack_operand<element>(ds, dp);
          tile::pack_operand<element>(p, score);
          drop(p, kept);
        } else {
          steps.score_gradients(ds, p, score, dp, ring);
        }
      };
      // Masks of ranges and of bytes, and a bias of -inf, may leave rows nothing; what such a row holds must not reach the
      // gradients.
      const auto clear_dead_queries = [&](const Ring<stages>& at) __attribute__((always_inline)) {
        if constexpr (Shape::scored) {
          if (args.walks.visits == nullptr) return;
          arch::wait(shared.q_full[at.slot], at.parity);
          if (shared.partial[at.slot]) clear_dead_rows(shared.q[at.slot], shared.lse2[at.slot], warpgroup);
        }
      };
      const auto clear_dead_gradients = [&](const Ring<stages>& at) __attribute__((always_inline)) {
        if constexpr (Shape::scored) {
          if (args.walks.visits == nullptr) return;
          arch::wait(shared.grad_full[at.slot], at.parity);
          if (shared.partial[at.slot]) clear_dead_rows(shared.grad_out[at.slot], shared.lse2[at.slot], warpgroup);
        } else if constexpr (Shape::biased) {  // no scores there, where q is as finite as it was in the forward
          arch::wait(shared.grad_full[at.slot], at.parity);
          clear_dead_rows(shared.grad_out[at.slot], shared.lse2[at.slot], warpgroup);
        }
      };
      const auto change_scores = [&](auto set) __attribute__((always_inline)) {  // before dP is under way, for its registers
        if constexpr (Shape::scored) {
          if (decltype(set)::value == FeatureSet::any && !args.changes_scores) return;
          changed_scores(set).change(score);
          if (decltype(set)::value == FeatureSet::any && args.walks.visits != nullptr && shared.partial[ring.slot])
            mask_scores<M>(score, args, work.sequence, work.tile * N + 64 * warpgroup, shared.first_query[ring.slot]);
        }
      };
      clear_dead_queries(ring);
      steps.issue_scores(score, ring).wait();
      arch::wait(shared.v_full[0], v.parity);
      if constexpr (Shape::order == Order::meeting) {
        const auto iterate = [&](auto more, auto set) __attribute__((always_inline)) {
          constexpr bool kMore = decltype(more)::value;
          constexpr FeatureSet kSet = decltype(set)::value;
          steps.forget_operands();
          Ring<stages> next = ring;
          next.advance();
          if constexpr (kSet != FeatureSet::dropout) change_scores(set);
          if constexpr (kSet == FeatureSet::any) clear_dead_gradients(ring);
          const auto dp_under_way = steps.issue_dp(dp, ring);
          prepare(set);
          steps.probabilities(score, ring);
          tile::settle(score);
          arch::wait(shared.grad_full[ring.slot], ring.parity);  // passes: keeps the exponentials above the next wait
          dp_under_way.wait();
          if constexpr (!kMore) arch::release_tile(shared.v_empty[0]);
          score_gradients(set);
          store_ds();
          if constexpr (Shape::biased) arch::release(shared.ds_full[ring.slot]);
          tile::begin();
          tile::multiply<element, D, M, false>(dv, p, steps.grad_at(ring));
          tile::commit();
          issue_dq(ring);
          tile::multiply<element, D, M, false>(dk, ds, steps.q_at(ring));
          const auto dk_under_way = tile::commit(dk, ds);
          tile::wait<1>(dv, p);
          arch::release(shared.grad_empty[ring.slot]);
          if constexpr (Shape::biased) arch::release(shared.ds_empty[ring.slot]);
          stage_dq(ring);
          dk_under_way.wait();
          if constexpr (kMore) {
            if constexpr (kSet == FeatureSet::any) clear_dead_queries(next);
            steps.issue_scores(score, next);
          }
          arch::release(shared.q_empty[ring.slot]);
          if constexpr (kMore) tile::wait(score);
          ring = next;
        };
        const auto walk = [&](auto set) __attribute__((always_inline)) {
#pragma unroll 1
          for (; remaining > 1; --remaining) iterate(std::true_type{}, set);
          iterate(std::false_type{}, set);
        };
        const auto walk_of_set = [&]() __attribute__((always_inline)) {
          if constexpr (Shape::scored) {
            if (args.set == FeatureSet::dropout) return walk(Set<FeatureSet::dropout>{});
            if constexpr (Shape::D == 128) {  // does not fit the registers at D = 64, nor does one of slopes
              if (args.set == FeatureSet::cap) return walk(Set<FeatureSet::cap>{});
            }
          }
          walk(Set<FeatureSet::any>{});
        };
        walk_of_set();
      } else {
        const auto finish_dq = [&](const Ring<stages>& at) __attribute__((always_inline)) {
          arch::release(shared.ds_empty[at.slot]);
          stage_dq(at);
        };
        const auto iterate = [&](auto more, auto has_before) __attribute__((always_inline)) {
          constexpr bool kMore = decltype(more)::value, kBefore = decltype(has_before)::value;
          steps.probabilities(score, ring);
          tile::settle(score);
          arch::wait(kMore ? shared.grad_full[ring.slot] : shared.v_full[0], kMore ? ring.parity : v.parity);  // passes, as above
          tile::wait(dp);
          if constexpr (!kMore) arch::release_tile(shared.v_empty[0]);
          score_gradients(Set<FeatureSet::any>{});
          if constexpr (!Shape::biased) arch::wait(shared.ds_empty[ring.slot], ring.parity ^ 1);
          store_ds();
          arch::release(shared.ds_full[ring.slot]);
          take_turn(warpgroup);
          tile::begin();
          tile::multiply<element, D, M, false>(dv, p, steps.grad_at(ring));
          tile::multiply<element, D, M, false>(dk, ds, steps.q_at(ring));
          const auto results_under_way = tile::commit(dv, dk, p, ds);
          if constexpr (kBefore) issue_dq(before(ring));
          hand_on(warpgroup);
          results_under_way.template wait<kBefore ? 1 : 0>();
          arch::release(shared.grad_empty[ring.slot]);
          Ring<stages> next = ring;
          next.advance();
          if constexpr (kMore) steps.issue_scores(score, next);
          arch::release(shared.q_empty[ring.slot]);
          if constexpr (kBefore) {
            tile::wait<kMore ? 1 : 0>();
            finish_dq(before(ring));
          }
          ring = next;
          if constexpr (kMore) {
            tile::wait(score);
            prepare(Set<FeatureSet::any>{});
            clear_dead_gradients(ring);
            steps.issue_dp(dp, ring);
          }
        };
        prepare(Set<FeatureSet::any>{});
        clear_dead_gradients(ring);
        steps.issue_dp(dp, ring);
        if (remaining > 1) {
          iterate(std::true_type{}, std::false_type{});
#pragma unroll 1
          for (; remaining > 2; --remaining) {
            steps.forget_operands();
            iterate(std::true_type{}, std::true_type{});
          }
          iterate(std::false_type{}, std::true_type{});
        } else {
          iterate(std::false_type{}, std::false_type{});
        }
        issue_dq(before(ring));
        tile::wait();
        finish_dq(before(ring));
      }
    } else {
      arch::wait(shared.v_full[0], v.parity);
      arch::release(shared.v_empty[0]);
    }
    arch::release(shared.k_empty[k.slot]);
    if constexpr (Shape::scored) {
#pragma unroll
      for (float& x : dv) x *= args.features.keep_factor;
    }
    store_key_results<Shape>(args, work, warpgroup, dk, dv);
    arch::release(shared.queue.done[slot.slot]);
  }
}

}  // namespace deckle::kernels::cuda::attention
