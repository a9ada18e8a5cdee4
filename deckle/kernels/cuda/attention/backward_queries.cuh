// dQ of attention. One thread block owns a tile of query rows of one head, 64 a warpgroup, and walks the keys they attend in
// tiles of N.
//
//   S = Q K^T     P = 2^(scale log2e S - lse2)     dP = dO V^T     dS = P (dP - delta)     dQ += dS K
//   dQ *= scale
//
// dS is a register operand. FLOP: 6 M N D per tile; bytes per tile: 4 N D from L2.
//
// clang-format off
// Ladder, as in backward_keys.cuh (H200, 2026-11-21; the runs were not kept); S = 16k full/causal, then S = 512. With the same
// dK/dV kernel, one run:
//   D = 128  96 keys, scores first, one q buffer, 3 k stages    523/505  326   (kept; the tensor pipe is 96 % busy, ncu)
//            3 x 64 rows, 64 keys, nothing ahead                526/497  333
//            128 keys, nothing ahead                            514/495  332
//   D = 64   128 keys, gradient first, two q buffers            441/434        (kept)
//            3 x 64 rows, 96 keys, nothing ahead                439/428
//            128 keys, nothing ahead                            431/425
// Two q buffers at D = 128 leave room for two k stages and gradient first: 506 to 479 at S = 16k, 314 to 335 at S = 512; for
// three k stages and one v stage: 518 to 487 and 322 to 322. Hence dQ leaves by a tile of its own there, and q and dO of the next
// work are on their way before this one ends, D = 128, one run:       S = 512 332 to 359, 2k 452 to 458, 4k causal 414 to 420,
// 16k 510 to 508, 16k causal 497 to 478, D = 96 S = 4k 409 to 417. What 16k causal loses: without that wait the blocks of a head
// drift apart, and K and V come from memory more often (L2 hits 78 to 59 %, 1.2 to 3.3 GB read, ncu). Fewer heads at a time do
// not help: 470 to 483 for 2 to 16.
// So only short walks do it: over cuDNN's, S = 16k causal 0.88 to 0.95, with 2 heads 0.88 to 0.95 (3b7c110 to ae33b76, one run
// each). D = 256 with 48 keys: 395 to 355 (n = 48 from shared memory is bandwidth bound).
// clang-format on
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

/// What a warpgroup queues behind dS(j) besides dQ(j): S(j+1) and dP(j+1), so that exponentials run under products.
enum class Ahead {
  scores_first,    // S(j+1), dQ(j), dP(j+1): exponentials under two products; K(j) is held until dQ(j) ends, so three stages of K
  gradient_first,  // dQ(j), S(j+1), dP(j+1): K(j) is free two products before S(j+2) needs its buffer, so two stages do
};

/// Where a tile of dQ lies on its way out.
enum class Leaves {
  through_q,  // the q tile, which is loaded again only afterwards: wants two q buffers, or long walks
  apart,      // a tile of its own: q and dO of the next work arrive under the last steps of this one
};

/// Walks of at most this many tiles give q and dO back early. In longer ones the wait for them is worth its time: it keeps the
/// blocks that walk the same keys together, and so the keys in L2.
inline constexpr int kShortWalk = 64;

template <Element element_, int D_, int Dv_, int keys_, int warpgroups_, int q_buffers_, int k_stages_, int v_stages_,
          Ahead ahead_, Leaves leaves_>
struct QueryGradients {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = Dv_;
  static constexpr int N = keys_;
  static constexpr int warpgroups = warpgroups_;
  static constexpr int M = 64 * warpgroups;
  static constexpr int q_buffers = q_buffers_, k_stages = k_stages_, v_stages = v_stages_;
  static constexpr int threads = 128 * (warpgroups + 1);
  static constexpr Registers registers = registers_of(warpgroups, D > 192);
  static constexpr Ahead ahead = ahead_;
  static constexpr bool apart = leaves_ == Leaves::apart;

  struct Shared {
    tile::SharedTile<M, D> q[q_buffers];
    tile::SharedTile<M, Dv> grad_out[q_buffers];
    tile::SharedTile<N, D> k[k_stages];
    tile::SharedTile<N, Dv> v[v_stages];
    std::conditional_t<apart, tile::SharedTile<M, D>, Nothing> grad_q;
    float2 statistics[q_buffers][M];  // lse2, delta; +inf, 0 for rows that attend nothing
    WorkQueue queue;
    arch::Barrier q_full[q_buffers], q_empty[q_buffers];
    arch::Barrier grad_full[q_buffers], grad_empty[q_buffers];  // dO tile and statistics
    arch::Barrier k_full[k_stages], k_empty[k_stages];
    arch::Barrier v_full[v_stages], v_empty[v_stages];
  };
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes);
};

/// The loader, one thread: for each work its queries and its keys, as buffers become free and in the order of their first use.
template <class Shape>
__device__ __forceinline__ void load_query_work(typename Shape::Shared& shared, const BackwardArguments& args) {
  constexpr int N = Shape::N;
  Ring<kWorkSlots> slot;
  Ring<Shape::q_buffers> q;
  Ring<Shape::k_stages> k;
  Ring<Shape::v_stages> v;
  for (;; slot.advance(), q.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) return;
    arch::wait(shared.q_empty[q.slot], q.parity ^ 1);
    arch::expect_bytes(shared.q_full[q.slot], sizeof(shared.q[0]));
    tile::load_tile(shared.q[q.slot], args.q, shared.q_full[q.slot], work.queries.row, work.head, work.queries.batch,
                    arch::CacheHint::evict_first);
    const int head = work.head / args.group, batch = work.keys.batch, end = work.keys.row + work.walk.count * N;
    bool first = true;
    for (int row = work.keys.row;; row += N, first = false) {
      if (row < end) {
        arch::wait(shared.k_empty[k.slot], k.parity ^ 1);
        arch::expect_bytes(shared.k_full[k.slot], sizeof(shared.k[0]));
        tile::load_tile(shared.k[k.slot], args.k, shared.k_full[k.slot], row, head, batch, arch::CacheHint::evict_last);
        k.advance();
      }
      if (first) {
        arch::wait(shared.grad_empty[q.slot], q.parity ^ 1);
        arch::expect_bytes(shared.grad_full[q.slot], sizeof(shared.grad_out[0]));
        tile::load_tile(shared.grad_out[q.slot], args.grad_out, shared.grad_full[q.slot], work.queries.row, work.head,
                        work.queries.batch, arch::CacheHint::evict_first);
      }
      if (row >= end) break;
      arch::wait(shared.v_empty[v.slot], v.parity ^ 1);
      arch::expect_bytes(shared.v_full[v.slot], sizeof(shared.v[0]));
      tile::load_tile(shared.v[v.slot], args.v, shared.v_full[v.slot], row, head, batch, arch::CacheHint::evict_last);
      v.advance();
    }
    arch::arrive(shared.queue.issued[slot.slot]);
  }
}

/// Row statistics lie at any address, which the copy engine does not take: one warp brings them.
template <class Shape>
__device__ __forceinline__ void load_statistics(typename Shape::Shared& shared, const BackwardArguments& args) {
  const int lane = threadIdx.x & 31;
  Ring<kWorkSlots> slot;
  Ring<Shape::q_buffers> q;
  for (;; slot.advance(), q.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) return;
    const int row = work.tile * Shape::M + lane - work.sequence.live_first;
    const float *const lse2 = args.lse2 + work.statistics + row, *const delta = lse2 + args.delta_from_lse2;
    float2 values[Shape::M / 32];  // fetched while the room for them is in use
#pragma unroll
    for (int i = 0; i < Shape::M / 32; ++i) {
      const bool live = static_cast<uint32_t>(row + 32 * i) < static_cast<uint32_t>(work.sequence.live_rows);
      values[i] = live ? float2{lse2[32 * i], delta[32 * i]} : float2{INFINITY, 0.0f};
    }
    arch::wait(shared.grad_empty[q.slot], q.parity ^ 1);
#pragma unroll
    for (int i = 0; i < Shape::M / 32; ++i) shared.statistics[q.slot][32 * i + lane] = values[i];
    arch::release(shared.grad_full[q.slot]);
    arch::release(shared.queue.done[slot.slot]);
  }
}

/// Zeroes P outside each row's keys [low, low + count), tile by tile, for the 64 rows from `first_row` on. Rows that attend
/// nothing have P = 0 already, so they ask for no mask.
class IntervalMask {
 public:
  __device__ __forceinline__ IntervalMask(const SequencePair& s, int first_row, int first_key, int N, int thread)
      : key_(first_key) {
    const int first = max(first_row, s.live_first), last = min(first_row + 64, s.live_first + s.live_rows) - 1;
    unmasked_first_ = last + s.band.low;
    unmasked_last_ = min(s.key_rows, first + s.band.high + 1) - N;
    const int row = first_row + tile::accumulator_row(thread), column = tile::accumulator_column(thread);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int low = max(0, row + 8 * half + s.band.low), high = min(s.key_rows, row + 8 * half + s.band.high + 1);
      from_low_[half] = column - low;
      count_[half] = max(0, high - low);
    }
  }

  template <int N>
  __device__ __forceinline__ void apply(float (&p)[N / 2]) {
    if (key_ < unmasked_first_ || key_ > unmasked_last_) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        const int half = (i >> 1) & 1;
        p[i] = static_cast<uint32_t>(key_ + from_low_[half] + 8 * (i / 4) + i % 2) < count_[half] ? p[i] : 0.0f;
      }
    }
    key_ += N;
  }

 private:
  int key_, unmasked_first_, unmasked_last_;
  int from_low_[2];
  uint32_t count_[2];
};

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) query_gradients(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, Dv = Shape::Dv;
  constexpr Element element = Shape::element;
  auto& shared = block_shared<typename Shape::Shared>();
  arch::launch_dependents();

  if (threadIdx.x == 0) {
    constexpr int kWarps = 4 * Shape::warpgroups;
    init_queue(shared.queue, kWarps + 1);  // consumers, statistics warp
    for (int i = 0; i < Shape::q_buffers; ++i) {
      arch::init_barrier(shared.q_full[i], 1);
      arch::init_barrier(shared.q_empty[i], kWarps);
      arch::init_barrier(shared.grad_full[i], 2);  // loader and statistics warp
      arch::init_barrier(shared.grad_empty[i], kWarps);
    }
    for (int i = 0; i < Shape::k_stages; ++i) {
      arch::init_barrier(shared.k_full[i], 1);
      arch::init_barrier(shared.k_empty[i], kWarps);
    }
    for (int i = 0; i < Shape::v_stages; ++i) {
      arch::init_barrier(shared.v_full[i], 1);
      arch::init_barrier(shared.v_empty[i], kWarps);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<Shape::registers.producer>();
    constexpr int kFirst = Shape::warpgroups * 128;
    if (threadIdx.x == kFirst) load_query_work<Shape>(shared, args);
    if (threadIdx.x == kFirst + 32) schedule<false, M, N>(shared.queue, args, args.heads);
    if (threadIdx.x >= kFirst + 64 && threadIdx.x < kFirst + 96) load_statistics<Shape>(shared, args);
    return;
  }
  arch::grow_registers<Shape::registers.consumer>();
  const int thread = threadIdx.x & 127;
  const bool first_lane = (thread & 31) == 0;
  const float scale_log2 = args.scale_log2;
  constexpr uint32_t v_from_k = sizeof(shared.k) / 16;
  constexpr uint32_t q_step = sizeof(shared.q[0]) / 16, grad_step = sizeof(shared.grad_out[0]) / 16;
  constexpr uint32_t k_step = sizeof(shared.k[0]) / 16, v_step = sizeof(shared.v[0]) / 16;
  Ring<kWorkSlots> slot;
  Ring<Shape::q_buffers> q;
  Ring<Shape::k_stages> k, k_done;  // of the newest scores issued; of the oldest dQ not yet released
  Ring<Shape::v_stages> v;
  for (;; slot.advance(), q.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    const SequencePair& s = work.sequence;
    const int first_row = work.tile * M + 64 * warpgroup;
    int remaining = work.walk.count;
    arch::wait(shared.q_full[q.slot], q.parity);
    const int tile_row = 64 * warpgroup + tile::accumulator_row(thread);
    float2 upper, lower;
    const auto wait_grad_out = [&] {
      arch::wait(shared.grad_full[q.slot], q.parity);
      upper = shared.statistics[q.slot][tile_row];
      lower = shared.statistics[q.slot][tile_row + 8];
    };
    // Where results leave apart, the buffers of q and dO of a short walk go back when their last product is done.
    const bool early = Shape::apart && remaining <= kShortWalk;
    const auto release_if = [&](arch::Barrier& barrier, bool last) {
      if constexpr (Shape::apart) arch::arrive_if(barrier, last && early && first_lane);
    };

    uint32_t q_operand = tile::operand(shared.q[0].address(), M, 64 * warpgroup).low + q.slot * q_step;
    uint32_t grad_operand = tile::operand(shared.grad_out[0].address(), M, 64 * warpgroup).low + q.slot * grad_step;
    uint32_t k_operand = tile::operand(shared.k[0].address(), N).low;

    float dq[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dq[i] = 0.0f;

    if (remaining > 0) {
      IntervalMask mask(s, first_row, work.walk.first * N, N, thread);
      float score[N / 2], dp[N / 2];
      const auto issue_scores = [&] {
        arch::wait(shared.k_full[k.slot], k.parity);
        tile::begin();
        tile::multiply_transposed<element, N, D, M, N, true>(score, {q_operand}, {k_operand + k.slot * k_step});
        tile::commit();
        k.advance();
      };
      const auto issue_dp = [&] {
        arch::wait(shared.v_full[v.slot], v.parity);
        tile::begin();
        tile::multiply_transposed<element, N, Dv, M, N, true>(dp, {grad_operand}, {k_operand + v_from_k + v.slot * v_step});
        return tile::commit(dp);
      };
      const auto issue_dq = [&](uint32_t(&ds)[N / 4]) {
        tile::multiply<element, D, N, false>(dq, ds, {k_operand + k_done.slot * k_step});
        return tile::commit(dq, ds);
      };
      const auto probabilities = [&] {
#pragma unroll
        for (int i = 0; i < N / 2; ++i) score[i] = arch::exp2(fmaf(score[i], scale_log2, (i & 2) ? -lower.x : -upper.x));
        mask.apply<N>(score);
      };
      const auto score_gradients = [&](uint32_t(&ds)[N / 4]) {
#pragma unroll
        for (int i = 0; i < N / 4; ++i) {
          const float delta = (i & 1) ? lower.y : upper.y;
          ds[i] = arch::pack<element>(score[2 * i] * (dp[2 * i] - delta), score[2 * i + 1] * (dp[2 * i + 1] - delta));
        }
      };

      issue_scores();
      wait_grad_out();
      const auto first_dp = issue_dp();
      tile::wait<1>(score);
      release_if(shared.q_empty[q.slot], remaining == 1);
      probabilities();
      first_dp.wait();
      release_if(shared.grad_empty[q.slot], remaining == 1);
      arch::release(shared.v_empty[v.slot]);
      v.advance();
      const auto iterate = [&](auto more) {
        constexpr bool kMore = decltype(more)::value, kScoresFirst = Shape::ahead == Ahead::scores_first;
        uint32_t ds[N / 4];
        arch::forget(k_operand);
        arch::forget(q_operand);
        score_gradients(ds);
        tile::settle(dq, ds);
        if constexpr (kMore && kScoresFirst) {
          issue_scores();
        } else {
          tile::begin();
        }
        const auto dq_under_way = issue_dq(ds);
        if constexpr (kMore) {
          if constexpr (!kScoresFirst) issue_scores();
          issue_dp();
          if constexpr (kScoresFirst) {
            tile::wait<2>(score);
          } else {
            dq_under_way.template wait<2>();
            arch::release(shared.k_empty[k_done.slot]);
            tile::wait<1>(score);
          }
          release_if(shared.q_empty[q.slot], remaining == 2);
          probabilities();
          tile::settle(score);
          arch::wait(shared.v_full[v.slot], v.parity);  // passes: keeps the exponentials above the next wait
        }
        tile::wait();
        if constexpr (!kMore || kScoresFirst) {
          tile::settle(dq, ds);
          arch::release(shared.k_empty[k_done.slot]);
        }
        k_done.advance();
        if constexpr (kMore) {
          tile::settle(dp);
          release_if(shared.grad_empty[q.slot], remaining == 2);
          arch::release(shared.v_empty[v.slot]);
          v.advance();
        }
      };
#pragma unroll 1
      for (; remaining > 1; --remaining) iterate(std::true_type{});
      iterate(std::false_type{});
    } else {
      wait_grad_out();
      release_if(shared.q_empty[q.slot], true);
      release_if(shared.grad_empty[q.slot], true);
    }

    // A dead row is zero whatever it computed.
    const int live_row = work.tile * M + tile_row - s.live_first;
    const bool upper_live = static_cast<uint32_t>(live_row) < s.live_rows,
               lower_live = static_cast<uint32_t>(live_row + 8) < s.live_rows;
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dq[i] = ((i & 2) ? lower_live : upper_live) ? dq[i] * args.scale : 0.0f;
    // Each warp's 16 rows of q were read by this warp's products alone, and those of a tile apart are stored by this warp alone.
    const auto& leaving = [&]() -> const auto& {
      if constexpr (Shape::apart) {
        return shared.grad_q;
      } else {
        return shared.q[q.slot];
      }
    }
    ();
    if constexpr (Shape::apart) {
      arch::wait_stores_read();
      __syncwarp();
    }
    tile::store_accumulators<element, D>(leaving.address(), M, 64 * warpgroup, thread, dq);
    arch::fence_shared_for_async();
    __syncwarp();
    if (first_lane) {
      const int row = 64 * warpgroup + 16 * (thread >> 5);
      tile::store_rows<D>(leaving, row, args.grad_q, work.queries.row + row, work.head, work.queries.batch);
      arch::commit_stores();
    }
    arch::release(shared.queue.done[slot.slot]);
    if constexpr (Shape::apart) {
      arch::arrive_if(shared.q_empty[q.slot], !early && first_lane);
      arch::arrive_if(shared.grad_empty[q.slot], !early && first_lane);
    } else {
      arch::wait_stores_read();
      arch::release(shared.q_empty[q.slot]);
      arch::release(shared.grad_empty[q.slot]);
    }
  }
  arch::wait_stores();
  finish_after_predecessor();
}

}  // namespace deckle::kernels::cuda::attention
