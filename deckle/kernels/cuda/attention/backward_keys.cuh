// dK and dV of attention. One thread block owns a tile of N keys of one kv head; its warpgroups own 64 keys each and never meet.
//
//   for each query head of the group, each tile of M queries that attend the tile:
//     S^T = K Q^T      P^T = 2^(scale log2e S^T - lse2)      dV += P^T dO
//     dP^T = V dO^T    dS^T = P^T (dP^T - delta)             dK += dS^T Q
//   dK *= scale
//
// Transposed scores make P^T and dS^T register operands: nothing but the epilogue writes shared memory.
// FLOP: 8 M N D per tile. Bytes per tile: 4 M D from L2. MUFU: M N / 16 clocks of 2 M N D / 1024.
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"

namespace deckle::kernels::cuda::attention {

using arch::Element;

template <Element element_, int D_, int queries_, int warpgroups_, int stages_>
struct KeyGradients {
  static constexpr Element element = element_;
  static constexpr int D = D_;
  static constexpr int M = queries_;
  static constexpr int warpgroups = warpgroups_;
  static constexpr int N = 64 * warpgroups;
  static constexpr int stages = stages_;
  static constexpr int threads = 128 * (warpgroups + 1);
  static_assert((stages & (stages - 1)) == 0);

  struct Shared {
    tile::SharedTile<N, D> k, v;
    tile::SharedTile<M, D> q[stages];
    tile::SharedTile<M, D> grad_out[stages];
    alignas(16) float lse2[stages][M];
    alignas(16) float delta[stages][M];
    arch::Barrier kv_full;
    arch::Barrier q_full[stages], q_empty[stages];      // q tile and lse2
    arch::Barrier grad_full[stages], grad_empty[stages];  // dO tile and delta
  };
  static constexpr int shared_bytes = sizeof(Shared) + 1024;  // room to align
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
__device__ __forceinline__ void score_gradients_transposed(uint32_t (&ds)[M / 4], const float (&p)[M / 2], const float (&dp)[M / 2],
                                                           uint32_t address) {
#pragma unroll
  for (int k = 0; k < M / 8; ++k) {
    const float2 delta = arch::load_shared_pair(address + 32 * k);
    ds[2 * k + 0] = arch::pack<element>(p[4 * k + 0] * (dp[4 * k + 0] - delta.x), p[4 * k + 1] * (dp[4 * k + 1] - delta.y));
    ds[2 * k + 1] = arch::pack<element>(p[4 * k + 2] * (dp[4 * k + 2] - delta.x), p[4 * k + 3] * (dp[4 * k + 3] - delta.y));
  }
}

/// The tiles of M queries that a tile of keys walks: those with a live row that attends one of the keys, counted from the first live row.
struct KeyTileWalk {
  int first_tile, tiles;
};

__device__ __forceinline__ KeyTileWalk key_tile_walk(const SequencePair& s, int first_key, int N, int M) {
  const int low = max(0, first_key - s.band.high - s.live_first);
  const int high = min(s.live_rows, first_key + N - s.band.low - s.live_first);
  return {low / M, high > low ? (high - 1) / M + 1 - low / M : 0};
}

/// Zeroes P^T outside the band, tile by tile of a walk that is repeated for each head of the group. For the 64 keys from `key` on.
class BandMask {
 public:
  __device__ __forceinline__ BandMask(const SequencePair& s, const KeyTileWalk& walk, int key, int M, int thread)
      : query_(s.live_first + walk.first_tile * M),
        end_(query_ + walk.tiles * M),
        span_(walk.tiles * M),
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

template <class Shape>
__device__ __forceinline__ void load_queries(typename Shape::Shared& shared, const BackwardArguments& args, const Work& work,
                                             const KeyTileWalk& walk) {
  constexpr int stages = Shape::stages, M = Shape::M;
  const SequencePair& s = work.sequence;
  const bool ragged = args.query_offsets != nullptr;
  const Coordinates keys = coordinates(ragged, s.index, s.key_start, 0, s.key_rows, work.block * Shape::N);
  arch::expect_bytes(shared.kv_full, sizeof(shared.k) + sizeof(shared.v));
  tile::load_tile(shared.k, args.k, shared.kv_full, keys.row, work.head, keys.batch, arch::CacheHint::evict_first);
  tile::load_tile(shared.v, args.v, shared.kv_full, keys.row, work.head, keys.batch, arch::CacheHint::evict_first);

  const Coordinates queries = coordinates(ragged, s.index, s.query_start, s.live_first, s.live_rows, walk.first_tile * M);
  int64_t statistics = (int64_t{work.head} * args.group) * args.statistics_rows + statistics_start(s, args) + walk.first_tile * M;
  Ring<stages> ring;
  for (int head = work.head * args.group; head < (work.head + 1) * args.group; ++head, statistics += args.statistics_rows) {
    const float* lse2 = args.lse2 + statistics;
    const float* delta = args.delta + statistics;
    for (int t = 0; t < walk.tiles; ++t, ring.advance()) {
      const uint32_t stage = ring.slot, parity = ring.parity ^ 1;
      arch::wait(shared.q_empty[stage], parity);
      arch::expect_bytes(shared.q_full[stage], sizeof(shared.q[0]) + M * 4);
      tile::load_tile(shared.q[stage], args.q, shared.q_full[stage], queries.row + t * M, head, queries.batch, arch::CacheHint::evict_last);
      arch::load_bulk(arch::shared_address(shared.lse2[stage]), lse2 + t * M, M * 4, shared.q_full[stage]);
      arch::wait(shared.grad_empty[stage], parity);
      arch::expect_bytes(shared.grad_full[stage], sizeof(shared.grad_out[0]) + M * 4);
      tile::load_tile(shared.grad_out[stage], args.grad_out, shared.grad_full[stage], queries.row + t * M, head, queries.batch,
                      arch::CacheHint::evict_last);
      arch::load_bulk(arch::shared_address(shared.delta[stage]), delta + t * M, M * 4, shared.grad_full[stage]);
    }
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) key_gradients(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, stages = Shape::stages;
  constexpr Element element = Shape::element;
  extern __shared__ unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Shape::Shared*>(raw + (1024 - arch::shared_address(raw) % 1024) % 1024);

  const Work work = find_work<true>(args, args.heads / args.group, N, false);
  if (work.none) return;
  const SequencePair& s = work.sequence;
  const int first_key = work.block * N;
  const KeyTileWalk walk = key_tile_walk(s, first_key, N, M);

  if (threadIdx.x == 0) {
    arch::init_barrier(shared.kv_full, 1);
    for (int i = 0; i < stages; ++i) {
      arch::init_barrier(shared.q_full[i], 1);
      arch::init_barrier(shared.grad_full[i], 1);
      arch::init_barrier(shared.q_empty[i], 4 * Shape::warpgroups);
      arch::init_barrier(shared.grad_empty[i], 4 * Shape::warpgroups);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<Shape::warpgroups == 2 ? 24 : 32>();
    if (threadIdx.x == Shape::warpgroups * 128) load_queries<Shape>(shared, args, work, walk);
  } else {
    arch::grow_registers<Shape::warpgroups == 2 ? 240 : 160>();
    const int thread = threadIdx.x & 127;
    const bool first_lane = (thread & 31) == 0;
    const int iterations = walk.tiles * args.group;
    const float scale_log2 = args.scale_log2;

    uint32_t q_operand = tile::operand(shared.q[0].address(), M).low;
    uint32_t k_operand = tile::operand(shared.k.address(), N, 64 * warpgroup).low;
    constexpr uint32_t v_from_k = sizeof(shared.k) / 16, grad_from_q = sizeof(shared.q) / 16, stage_step = sizeof(shared.q[0]) / 16;
    const uint32_t lse2_address = arch::shared_address(shared.lse2[0]) + 4 * tile::accumulator_column(thread);
    constexpr uint32_t delta_from_lse2 = sizeof(shared.lse2);

    BandMask mask(s, walk, first_key + 64 * warpgroup, M, thread);

    float dk[D / 2], dv[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dk[i] = dv[i] = 0.0f;

    float score[M / 2], dp[M / 2];
    uint32_t p[M / 4];
    const auto slot = [&](int j) { return static_cast<uint32_t>(j % stages); };
    const auto parity = [&](int j) { return static_cast<uint32_t>(j / stages) & 1; };
    const auto issue_scores = [&](int j) {
      arch::wait(shared.q_full[slot(j)], parity(j));
      arch::wgmma_fence();
      tile::multiply_transposed<element, M, D, N, M, true>(score, {k_operand}, {q_operand + slot(j) * stage_step});
      arch::wgmma_commit();
    };
    const auto issue_dp = [&](int j) {
      arch::wait(shared.grad_full[slot(j)], parity(j));
      arch::wgmma_fence();
      tile::multiply_transposed<element, M, D, N, M, true>(dp, {k_operand + v_from_k}, {q_operand + grad_from_q + slot(j) * stage_step});
      arch::wgmma_commit();
    };
    const auto issue_dv = [&](int j) {
      tile::multiply<element, D, M, false>(dv, p, {q_operand + grad_from_q + slot(j) * stage_step});
      arch::wgmma_commit();
    };
    const auto issue_dk = [&](const uint32_t(&ds)[M / 4], int j) {
      tile::multiply<element, D, M, false>(dk, ds, {q_operand + slot(j) * stage_step});
      arch::wgmma_commit();
    };
    const auto probabilities = [&](int j) {
      probabilities_transposed<M>(score, lse2_address + slot(j) * (M * 4), scale_log2);
      mask.apply<M>(score);
    };
    const auto release = [&](arch::Barrier& barrier) {
      __syncwarp();
      if (first_lane) arch::arrive(barrier);
    };

    if (iterations > 0) {
      arch::wait(shared.kv_full, 0);
      issue_scores(0);
      issue_dp(0);
      arch::wgmma_wait<1>();
      arch::pin(score);
      probabilities(0);
      tile::pack_operand<element>(p, score);
      arch::wgmma_wait<0>();
      arch::pin(dp);
      const auto iterate = [&](int j, auto more) {
        constexpr bool kMore = decltype(more)::value;
        uint32_t ds[M / 4];
        forget(k_operand);
        forget(q_operand);
        score_gradients_transposed<element, M>(ds, score, dp, lse2_address + delta_from_lse2 + slot(j) * (M * 4));
        arch::pin(dv);
        arch::pin(dk);
        arch::pin(p);
        arch::pin(ds);
        if constexpr (kMore) {
          issue_scores(j + 1);
        } else {
          arch::wgmma_fence();
        }
        issue_dv(j);
        issue_dk(ds, j);
        if constexpr (kMore) {
          arch::wgmma_wait<2>();
          arch::pin(score);
          probabilities(j + 1);
          arch::pin(score);
          arch::wait(shared.grad_full[slot(j + 1)], parity(j + 1));
          arch::wgmma_wait<1>();
          arch::pin(dv);
          arch::pin(p);
          release(shared.grad_empty[slot(j)]);
          issue_dp(j + 1);
          arch::wgmma_wait<1>();
          arch::pin(dk);
          arch::pin(ds);
          release(shared.q_empty[slot(j)]);
          tile::pack_operand<element>(p, score);
          arch::pin(p);
          arch::wait(shared.grad_full[slot(j + 1)], parity(j + 1));
          arch::wgmma_wait<0>();
          arch::pin(dp);
        } else {
          arch::wgmma_wait<0>();
          arch::pin(dv);
          arch::pin(dk);
          arch::pin(p);
          arch::pin(ds);
        }
      };
#pragma unroll 1
      for (int j = 0; j < iterations - 1; ++j) iterate(j, std::true_type{});
      iterate(iterations - 1, std::false_type{});
    } else {
      arch::wait(shared.kv_full, 0);  // its buffers become the output's
    }

    // Each warp's 16 rows of k and v were read by this warp's products alone: they take the results.
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dk[i] *= args.scale;
    tile::store_accumulators<element, D>(shared.k.address(), N, 64 * warpgroup, thread, dk);
    tile::store_accumulators<element, D>(shared.v.address(), N, 64 * warpgroup, thread, dv);
    arch::fence_shared_for_async();
    __syncwarp();
    if (first_lane) {
      const int row = 64 * warpgroup + 16 * (thread >> 5);
      const Coordinates keys =
          coordinates(args.query_offsets != nullptr, s.index, s.key_start, 0, s.key_rows, first_key + row);
#pragma unroll
      for (int panel = 0; panel < tile::panels(D); ++panel) {
        const uint32_t offset = panel * shared.k.panel_bytes + row * tile::kPanelRowBytes;
        arch::store_box(args.grad_k, shared.k.address() + offset, panel * 64, keys.row, work.head, keys.batch);
        arch::store_box(args.grad_v, shared.v.address() + offset, panel * 64, keys.row, work.head, keys.batch);
      }
      arch::commit_stores();
      arch::wait_stores();
    }
  }
}

}  // namespace deckle::kernels::cuda::attention
