// dK and dV of attention. One thread block owns a tile of N keys of one kv head; its warpgroups own 64 keys each and never meet.
//
//   for each query head of the group, each tile of M queries that attend the tile:
//     S^T = K Q^T      P^T = 2^(scale log2e S^T - lse2)      dV += P^T dO
//     dP^T = V dO^T    dS^T = P^T (dP^T - delta)             dK += dS^T Q
//   dK *= scale
//
// Transposed scores make P^T and dS^T register operands: nothing but the epilogue writes shared memory.
// FLOP: 8 M N D per tile. Bytes per tile: 4 M D from L2. MUFU: M N / 16 clocks of 2 M N D / 1024.
// Instances: D = 64, 96, 128 (backward_config.cuh); larger ones are in backward_keys_split.cuh.
//
// clang-format off
// Ladder. TFLOP/s of the whole backward by 10 M N D, bf16, 16,384 tokens, 2048 / D heads, unless said otherwise; attention_backward_timing
// on one H200, 2026-11-21. Numbers joined by "to" come from one run; others vary by 5 % with the machine lent and its clock.
//   1  a block a tile; S(j+1) issued ahead of dV(j) and dK(j):          D = 128 S = 16k 497, S = 512 306; 512 sequences of mean 58, D = 64: 45
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
// Limit at D = 128: the tensor pipe is 83 % busy at 1.73 GHz when the kernel runs alone (ncu); in a stream of backwards the card's power
// lowers the clock to 1.6 GHz. What separates it from an unordered one-pass kernel is 14 M N D executed for 10 counted.
// clang-format on
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"

namespace deckle::kernels::cuda::attention {

using arch::Element;

/// What runs under the exponentials of a warpgroup.
enum class Overlap {
  own,     // its own dV(j), dK(j): S(j+1) is issued ahead of them. Needs D + 3 M / 2 registers
  others,  // the products of the other warpgroups: S, dP, dV, dK of one tile in turn. Registers for three warpgroups at D = 64
};

template <Element element_, int D_, int queries_, int warpgroups_, int stages_, int kv_buffers_, Overlap overlap_>
struct KeyGradients {
  static constexpr Element element = element_;
  static constexpr int D = D_;
  static constexpr int M = queries_;  // a tile of queries
  static constexpr int warpgroups = warpgroups_;
  static constexpr Overlap overlap = overlap_;
  static constexpr int N = 64 * warpgroups;
  static constexpr int stages = stages_;
  static constexpr int kv_buffers = kv_buffers_;
  static constexpr int threads = 128 * (warpgroups + 1);
  static constexpr Registers registers = registers_of(warpgroups, D > 96 || M > 96);

  struct Shared {
    tile::SharedTile<N, D> k[kv_buffers], v[kv_buffers];
    tile::SharedTile<M, D> q[stages];
    tile::SharedTile<M, D> grad_out[stages];
    alignas(16) float lse2[stages][M];
    alignas(16) float delta[stages][M];
    WorkQueue queue;
    arch::Barrier kv_full[kv_buffers], kv_empty[kv_buffers];
    arch::Barrier q_full[stages], q_empty[stages];        // q tile and lse2
    arch::Barrier grad_full[stages], grad_empty[stages];  // dO tile and delta
  };
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes);
};

/// P^T in place of S^T: column pairs of the accumulator are queries, whose lse2 lie at `address` + 4 * column.
template <int M>
__device__ __forceinline__ void probabilities_transposed(float (&s)[M / 2], uint32_t address, float scale_log2) {
#pragma unroll
  for (int k = 0; k < M / 8; ++k) {
    const float2 lse2 = arch::load_shared_pair(address + 32 * k);
    s[4 * k + 0] = arch::exp2(fmaf(s[4 * k + 0], scale_log2, -lse2.x));
    s[4 * k + 1] = arch::exp2(fmaf(s[4 * k + 1], scale_log2, -lse2.y));
    s[4 * k + 2] = arch::exp2(fmaf(s[4 * k + 2], scale_log2, -lse2.x));
    s[4 * k + 3] = arch::exp2(fmaf(s[4 * k + 3], scale_log2, -lse2.y));
  }
}

/// dS^T = P^T (dP^T - delta), packed.
template <Element element, int M>
__device__ __forceinline__ void score_gradients_transposed(uint32_t (&ds)[M / 4], const float (&p)[M / 2],
                                                           const float (&dp)[M / 2], uint32_t address) {
#pragma unroll
  for (int k = 0; k < M / 8; ++k) {
    const float2 delta = arch::load_shared_pair(address + 32 * k);
    ds[2 * k + 0] = arch::pack<element>(p[4 * k + 0] * (dp[4 * k + 0] - delta.x), p[4 * k + 1] * (dp[4 * k + 1] - delta.y));
    ds[2 * k + 1] = arch::pack<element>(p[4 * k + 2] * (dp[4 * k + 2] - delta.x), p[4 * k + 3] * (dp[4 * k + 3] - delta.y));
  }
}

/// Zeroes P^T outside the band, tile by tile of a walk that is repeated for each head of the group. For the 64 keys from `key`
/// on.
class BandMask {
 public:
  __device__ __forceinline__ BandMask(const SequencePair& s, const Walk& walk, int key, int M, int thread)
      : query_(s.live_first + walk.first * M),
        end_(query_ + walk.count * M),
        span_(walk.count * M),
        unmasked_first_(key + 63 - s.band.high),
        unmasked_last_(key - s.band.low - (M - 1)),
        base_(tile::accumulator_column(thread) + s.band.high - key - tile::accumulator_row(thread)),
        width_(static_cast<uint32_t>(s.band.high) - static_cast<uint32_t>(s.band.low)) {}

  template <int M>
  __device__ __forceinline__ void apply(float (&p)[M / 2]) {
    if (query_ < unmasked_first_ || query_ > unmasked_last_) {
      // query - (key - high) of accumulator 0; inside the band it lies in [0, width].
      const uint32_t distance = query_ + base_;
#pragma unroll
      for (int i = 0; i < M / 2; ++i) {
        const uint32_t column = 8 * (i / 4) + i % 2, row = 8 * ((i / 2) % 2);
        p[i] = distance + column - row <= width_ ? p[i] : 0.0f;
      }
    }
    query_ += M;
    if (query_ == end_) query_ -= span_;
  }

 private:
  int query_, end_, span_;
  int unmasked_first_, unmasked_last_;
  uint32_t base_, width_;
};

/// The loader, one thread: for each work its keys and then its queries, as buffers become free.
template <class Shape>
__device__ __forceinline__ void load_key_work(typename Shape::Shared& shared, const BackwardArguments& args) {
  constexpr int M = Shape::M;
  Ring<kWorkSlots> slot;
  Ring<Shape::kv_buffers> kv;
  Ring<Shape::stages> ring;
  for (;; slot.advance(), kv.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) return;
    arch::wait(shared.kv_empty[kv.slot], kv.parity ^ 1);
    arch::expect_bytes(shared.kv_full[kv.slot], sizeof(shared.k[0]) + sizeof(shared.v[0]));
    tile::load_tile(shared.k[kv.slot], args.k, shared.kv_full[kv.slot], work.keys.row, work.head, work.keys.batch,
                    arch::CacheHint::evict_first);
    tile::load_tile(shared.v[kv.slot], args.v, shared.kv_full[kv.slot], work.keys.row, work.head, work.keys.batch,
                    arch::CacheHint::evict_first);
    for (int g = 0; g < args.group; ++g) {
      const int head = work.head * args.group + g, batch = work.queries.batch, first = work.queries.row;
      const float* lse2 = args.lse2 + work.statistics + g * args.statistics_rows;
      for (int row = first; row < first + work.walk.count * M; row += M, lse2 += M, ring.advance()) {
        arch::wait(shared.q_empty[ring.slot], ring.parity ^ 1);
        arch::expect_bytes(shared.q_full[ring.slot], sizeof(shared.q[0]) + M * 4);
        tile::load_tile(shared.q[ring.slot], args.q, shared.q_full[ring.slot], row, head, batch, arch::CacheHint::evict_last);
        arch::load_bulk(arch::shared_address(shared.lse2[ring.slot]), lse2, M * 4, shared.q_full[ring.slot]);
        arch::wait(shared.grad_empty[ring.slot], ring.parity ^ 1);
        arch::expect_bytes(shared.grad_full[ring.slot], sizeof(shared.grad_out[0]) + M * 4);
        tile::load_tile(shared.grad_out[ring.slot], args.grad_out, shared.grad_full[ring.slot], row, head, batch,
                        arch::CacheHint::evict_last);
        arch::load_bulk(arch::shared_address(shared.delta[ring.slot]), lse2 + args.delta_from_lse2, M * 4,
                        shared.grad_full[ring.slot]);
      }
    }
    arch::arrive(shared.queue.done[slot.slot]);
    arch::arrive(shared.queue.wanted);
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) key_gradients(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, stages = Shape::stages;
  constexpr Element element = Shape::element;
  auto& shared = block_shared<typename Shape::Shared>();
  arch::wait_for_dependencies();
  arch::launch_dependents();

  if (threadIdx.x == 0) {
    constexpr int kWarps = 4 * Shape::warpgroups;
    init_queue(shared.queue, kWarps + 1);  // consumers and loader
    for (int i = 0; i < Shape::kv_buffers; ++i) {
      arch::init_barrier(shared.kv_full[i], 1);
      arch::init_barrier(shared.kv_empty[i], kWarps);
    }
    for (int i = 0; i < stages; ++i) {
      arch::init_barrier(shared.q_full[i], 1);
      arch::init_barrier(shared.grad_full[i], 1);
      arch::init_barrier(shared.q_empty[i], kWarps);
      arch::init_barrier(shared.grad_empty[i], kWarps);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<Shape::registers.producer>();
    if (threadIdx.x == Shape::warpgroups * 128) load_key_work<Shape>(shared, args);
    if (threadIdx.x == Shape::warpgroups * 128 + 32) schedule<true, N, M>(shared.queue, args, args.heads / args.group);
    return;
  }
  arch::grow_registers<Shape::registers.consumer>();
  const int thread = threadIdx.x & 127;
  const bool first_lane = (thread & 31) == 0;
  const float scale_log2 = args.scale_log2;
  const uint32_t lse2_address = arch::shared_address(shared.lse2[0]) + 4 * tile::accumulator_column(thread);
  constexpr uint32_t delta_from_lse2 = sizeof(shared.lse2);
  constexpr uint32_t v_from_k = sizeof(shared.k) / 16, kv_step = sizeof(shared.k[0]) / 16;
  constexpr uint32_t grad_from_q = sizeof(shared.q) / 16, stage_step = sizeof(shared.q[0]) / 16;
  const auto release = [&](arch::Barrier& barrier) {
    __syncwarp();
    if (first_lane) arch::arrive(barrier);
  };

  Ring<kWorkSlots> slot;
  Ring<Shape::kv_buffers> kv;
  Ring<stages> ring;  // of the newest tile in use
  for (;; slot.advance(), kv.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    arch::wait(shared.kv_full[kv.slot], kv.parity);
    const int key = work.tile * N + 64 * warpgroup;
    BandMask mask(work.sequence, work.walk, key, M, thread);
    int remaining = work.walk.count * args.group;

    uint32_t q_operand = tile::operand(shared.q[0].address(), M).low;
    uint32_t k_operand = tile::operand(shared.k[0].address(), N, 64 * warpgroup).low + kv.slot * kv_step;
    float dk[D / 2], dv[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dk[i] = dv[i] = 0.0f;

    if (remaining > 0) {
      float score[M / 2], dp[M / 2];
      uint32_t p[M / 4];
      const auto issue_scores = [&](const Ring<stages>& at) {
        arch::wait(shared.q_full[at.slot], at.parity);
        arch::wgmma_fence();
        tile::multiply_transposed<element, M, D, N, M, true>(score, {k_operand}, {q_operand + at.slot * stage_step});
        arch::wgmma_commit();
      };
      const auto issue_dp = [&](const Ring<stages>& at) {
        arch::wait(shared.grad_full[at.slot], at.parity);
        arch::wgmma_fence();
        tile::multiply_transposed<element, M, D, N, M, true>(dp, {k_operand + v_from_k},
                                                             {q_operand + grad_from_q + at.slot * stage_step});
        arch::wgmma_commit();
      };
      const auto probabilities = [&](const Ring<stages>& at) {
        probabilities_transposed<M>(score, lse2_address + at.slot * (M * 4), scale_log2);
        mask.apply<M>(score);
      };

      if constexpr (Shape::overlap == Overlap::others) {
#pragma unroll 1
        for (; remaining > 0; --remaining) {
          forget(k_operand);
          forget(q_operand);
          issue_scores(ring);
          issue_dp(ring);
          arch::wgmma_wait<1>();
          arch::pin(score);
          probabilities(ring);
          arch::pin(score);
          arch::wait(shared.grad_full[ring.slot], ring.parity);  // keeps the exponentials above the next wait
          arch::wgmma_wait<0>();
          arch::pin(dp);
          uint32_t ds[M / 4];
          score_gradients_transposed<element, M>(ds, score, dp, lse2_address + delta_from_lse2 + ring.slot * (M * 4));
          tile::pack_operand<element>(p, score);
          arch::pin(dv);
          arch::pin(dk);
          arch::pin(p);
          arch::pin(ds);
          arch::wgmma_fence();
          tile::multiply<element, D, M, false>(dv, p, {q_operand + grad_from_q + ring.slot * stage_step});
          tile::multiply<element, D, M, false>(dk, ds, {q_operand + ring.slot * stage_step});
          arch::wgmma_commit();
          arch::wgmma_wait<0>();
          arch::pin(dv);
          arch::pin(dk);
          arch::pin(p);
          arch::pin(ds);
          release(shared.grad_empty[ring.slot]);
          release(shared.q_empty[ring.slot]);
          ring.advance();
        }
      } else {
        issue_scores(ring);
        issue_dp(ring);
        arch::wgmma_wait<1>();
        arch::pin(score);
        probabilities(ring);
        tile::pack_operand<element>(p, score);
        arch::wgmma_wait<0>();
        arch::pin(dp);
        const auto iterate = [&](auto more) {
          constexpr bool kMore = decltype(more)::value;
          uint32_t ds[M / 4];
          forget(k_operand);
          forget(q_operand);
          Ring<stages> next = ring;
          next.advance();
          score_gradients_transposed<element, M>(ds, score, dp, lse2_address + delta_from_lse2 + ring.slot * (M * 4));
          arch::pin(dv);
          arch::pin(dk);
          arch::pin(p);
          arch::pin(ds);
          if constexpr (kMore) {
            issue_scores(next);
          } else {
            arch::wgmma_fence();
          }
          tile::multiply<element, D, M, false>(dv, p, {q_operand + grad_from_q + ring.slot * stage_step});
          arch::wgmma_commit();
          tile::multiply<element, D, M, false>(dk, ds, {q_operand + ring.slot * stage_step});
          arch::wgmma_commit();
          if constexpr (kMore) {
            arch::wgmma_wait<2>();
            arch::pin(score);
            probabilities(next);
            arch::pin(score);
            arch::wait(shared.grad_full[next.slot], next.parity);  // keeps the exponentials above the next wait
            arch::wgmma_wait<1>();
            arch::pin(dv);
            arch::pin(p);
            release(shared.grad_empty[ring.slot]);
            issue_dp(next);
            arch::wgmma_wait<1>();
            arch::pin(dk);
            arch::pin(ds);
            release(shared.q_empty[ring.slot]);
            tile::pack_operand<element>(p, score);
            arch::pin(p);
            arch::wait(shared.grad_full[next.slot], next.parity);
            arch::wgmma_wait<0>();
            arch::pin(dp);
          } else {
            arch::wgmma_wait<0>();
            arch::pin(dv);
            arch::pin(dk);
            arch::pin(p);
            arch::pin(ds);
            release(shared.grad_empty[ring.slot]);
            release(shared.q_empty[ring.slot]);
          }
          ring = next;
        };
#pragma unroll 1
        for (; remaining > 1; --remaining) iterate(std::true_type{});
        iterate(std::false_type{});
      }
    }

    // Each warp's 16 rows of k and v were read by this warp's products alone: they take the results.
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dk[i] *= args.scale;
    tile::store_accumulators<element, D>(shared.k[kv.slot].address(), N, 64 * warpgroup, thread, dk);
    tile::store_accumulators<element, D>(shared.v[kv.slot].address(), N, 64 * warpgroup, thread, dv);
    arch::fence_shared_for_async();
    __syncwarp();
    if (first_lane) {
      const int row = 64 * warpgroup + 16 * (thread >> 5);
      const uint32_t offset = row * tile::kPanelRowBytes;
#pragma unroll
      for (int panel = 0; panel < tile::panels(D); ++panel) {
        constexpr int kPanelBytes = N * tile::kPanelRowBytes;
        arch::store_box(args.grad_k, shared.k[kv.slot].address() + offset + panel * kPanelBytes, panel * 64, work.keys.row + row,
                        work.head, work.keys.batch);
        arch::store_box(args.grad_v, shared.v[kv.slot].address() + offset + panel * kPanelBytes, panel * 64, work.keys.row + row,
                        work.head, work.keys.batch);
      }
      arch::commit_stores();
      arch::wait_stores_read();
      arch::arrive(shared.kv_empty[kv.slot]);
      arch::arrive(shared.queue.done[slot.slot]);
    }
    __syncwarp();
  }
  arch::wait_stores();
}

}  // namespace deckle::kernels::cuda::attention
