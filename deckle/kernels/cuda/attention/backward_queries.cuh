// dQ of attention. One thread block owns a tile of query rows of one head, 64 a warpgroup, and walks the keys they attend in tiles of N.
//
//   S = Q K^T     P = 2^(scale log2e S - lse2)     dP = dO V^T     dS = P (dP - delta)     dQ += dS K
//   dQ *= scale
//
// dS is a register operand. FLOP: 6 M N D per tile; bytes per tile: 4 N D from L2.
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/backward_keys.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"

namespace deckle::kernels::cuda::attention {

/// What a warpgroup queues behind dS(j) besides dQ(j): S(j+1) and dP(j+1), so that exponentials run under products.
enum class Ahead {
  scores_first,    // S(j+1), dQ(j), dP(j+1): exponentials under two products; K(j) is held until dQ(j) ends, so three stages of K
  gradient_first,  // dQ(j), S(j+1), dP(j+1): K(j) is free two products before S(j+2) needs its buffer, so two stages do
};

template <Element element_, int D_, int Dv_, int keys_, int warpgroups_, int k_stages_, int v_stages_, Ahead ahead_>
struct QueryGradients {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = Dv_;
  static constexpr int N = keys_;
  static constexpr int warpgroups = warpgroups_;
  static constexpr int M = 64 * warpgroups;
  static constexpr int k_stages = k_stages_, v_stages = v_stages_;
  static constexpr int threads = 128 * (warpgroups + 1);
  static constexpr Ahead ahead = ahead_;

  struct Shared {
    tile::SharedTile<M, D> q;
    tile::SharedTile<M, Dv> grad_out;
    tile::SharedTile<N, D> k[k_stages];
    tile::SharedTile<N, Dv> v[v_stages];
    arch::Barrier q_full;
    arch::Barrier k_full[k_stages], k_empty[k_stages];
    arch::Barrier v_full[v_stages], v_empty[v_stages];
  };
  static constexpr int shared_bytes = sizeof(Shared) + 1024;  // room to align
  static_assert(shared_bytes <= kMaxSharedBytes);
};

template <class Shape>
__device__ __forceinline__ void load_keys(typename Shape::Shared& shared, const BackwardArguments& args, const Work& work, int first_tile,
                                          int tiles) {
  const SequencePair& s = work.sequence;
  const bool ragged = args.query_offsets != nullptr;
  const int kv_head = work.head / args.group;
  const Coordinates queries = coordinates(ragged, s.index, s.query_start, 0, s.query_rows, work.block * Shape::M);
  arch::expect_bytes(shared.q_full, sizeof(shared.q) + sizeof(shared.grad_out));
  tile::load_tile(shared.q, args.q, shared.q_full, queries.row, work.head, queries.batch, arch::CacheHint::evict_first);
  tile::load_tile(shared.grad_out, args.grad_out, shared.q_full, queries.row, work.head, queries.batch, arch::CacheHint::evict_first);

  const Coordinates keys = coordinates(ragged, s.index, s.key_start, 0, s.key_rows, first_tile * Shape::N);
  Ring<Shape::k_stages> k;
  Ring<Shape::v_stages> v;
  for (int t = 0; t < tiles; ++t, k.advance(), v.advance()) {
    arch::wait(shared.k_empty[k.slot], k.parity ^ 1);
    arch::expect_bytes(shared.k_full[k.slot], sizeof(shared.k[0]));
    tile::load_tile(shared.k[k.slot], args.k, shared.k_full[k.slot], keys.row + t * Shape::N, kv_head, keys.batch,
                    arch::CacheHint::evict_last);
    arch::wait(shared.v_empty[v.slot], v.parity ^ 1);
    arch::expect_bytes(shared.v_full[v.slot], sizeof(shared.v[0]));
    tile::load_tile(shared.v[v.slot], args.v, shared.v_full[v.slot], keys.row + t * Shape::N, kv_head, keys.batch,
                    arch::CacheHint::evict_last);
  }
}

/// What a thread knows of its two rows: accumulator row r and r + 8.
struct QueryRow {
  float lse2 = INFINITY, delta = 0;  // a dead row: P = 0
  int low = 0;                                         // keys [low, low + count)
  uint32_t count = 0;
  bool live = false;
};

__device__ __forceinline__ QueryRow query_row(const BackwardArguments& args, const SequencePair& s, int head, int row) {
  QueryRow r;
  const int live_row = row - s.live_first;
  r.live = live_row >= 0 && live_row < s.live_rows;
  if (r.live) {
    const int64_t index = head * args.statistics_rows + statistics_start(s, args) + live_row;
    r.lse2 = args.lse2[index];
    r.delta = args.delta[index];
    r.low = max(0, row + s.band.low);
    r.count = static_cast<uint32_t>(min(s.key_rows, row + s.band.high + 1) - r.low);
  }
  return r;
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) query_gradients(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, Dv = Shape::Dv;
  constexpr Element element = Shape::element;
  extern __shared__ unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Shape::Shared*>(raw + (1024 - arch::shared_address(raw) % 1024) % 1024);

  const Work work = find_work<false>(args, args.heads, M, true);
  if (work.none) return;
  const SequencePair& s = work.sequence;
  const int first_row = work.block * M;
  // Keys that some live row of the tile attends, in tiles of N.
  const int first_live = max(first_row, s.live_first), last_live = min(first_row + M, s.live_first + s.live_rows) - 1;
  const int low = max(0, first_live + s.band.low);
  const int high = min(s.key_rows, last_live + s.band.high + 1);
  const int first_tile = low / N;
  const int tiles = first_live <= last_live ? (high - 1) / N + 1 - first_tile : 0;

  if (threadIdx.x == 0) {
    arch::init_barrier(shared.q_full, 1);
    for (int i = 0; i < Shape::k_stages; ++i) {
      arch::init_barrier(shared.k_full[i], 1);
      arch::init_barrier(shared.k_empty[i], 4 * Shape::warpgroups);
    }
    for (int i = 0; i < Shape::v_stages; ++i) {
      arch::init_barrier(shared.v_full[i], 1);
      arch::init_barrier(shared.v_empty[i], 4 * Shape::warpgroups);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<Shape::warpgroups == 2 ? 24 : 32>();
    if (threadIdx.x == Shape::warpgroups * 128) load_keys<Shape>(shared, args, work, first_tile, tiles);
  } else {
    arch::grow_registers<Shape::warpgroups == 2 ? 240 : 160>();
    const int thread = threadIdx.x & 127;
    const bool first_lane = (thread & 31) == 0;
    const float scale_log2 = args.scale_log2;
    const int row = first_row + 64 * warpgroup + tile::accumulator_row(thread);
    const QueryRow upper = query_row(args, s, work.head, row), lower = query_row(args, s, work.head, row + 8);

    uint32_t q_operand = tile::operand(shared.q.address(), M, 64 * warpgroup).low;
    uint32_t k_operand = tile::operand(shared.k[0].address(), N).low;
    constexpr uint32_t grad_from_q = sizeof(shared.q) / 16, v_from_k = sizeof(shared.k) / 16;
    constexpr uint32_t k_step = sizeof(shared.k[0]) / 16, v_step = sizeof(shared.v[0]) / 16;

    // A tile needs no mask if each live row of this warpgroup attends each of its keys. (Dead rows have P = 0.)
    const int group_first = max(first_row + 64 * warpgroup, s.live_first);
    const int group_last = min(first_row + 64 * warpgroup + 64, s.live_first + s.live_rows) - 1;
    const int unmasked_first = group_last + s.band.low;
    const int unmasked_last = min(s.key_rows, group_first + s.band.high + 1) - N;
    int key = first_tile * N;
    const int column = tile::accumulator_column(thread);

    float dq[D / 2];
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dq[i] = 0.0f;

    float score[N / 2], dp[N / 2];
    Ring<Shape::k_stages> k, k_done;   // of the newest scores issued; of the oldest dQ not yet released
    Ring<Shape::v_stages> v;
    const auto issue_scores = [&] {
      arch::wait(shared.k_full[k.slot], k.parity);
      arch::wgmma_fence();
      tile::multiply_transposed<element, N, D, M, N, true>(score, {q_operand}, {k_operand + k.slot * k_step});
      arch::wgmma_commit();
      k.advance();
    };
    const auto issue_dp = [&] {
      arch::wait(shared.v_full[v.slot], v.parity);
      arch::wgmma_fence();
      tile::multiply_transposed<element, N, Dv, M, N, true>(dp, {q_operand + grad_from_q}, {k_operand + v_from_k + v.slot * v_step});
      arch::wgmma_commit();
    };
    const auto issue_dq = [&](const uint32_t(&ds)[N / 4]) {
      tile::multiply<element, D, N, false>(dq, ds, {k_operand + k_done.slot * k_step});
      arch::wgmma_commit();
    };
    const auto probabilities = [&] {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) score[i] = arch::exp2(fmaf(score[i], scale_log2, (i & 2) ? -lower.lse2 : -upper.lse2));
      if (key < unmasked_first || key > unmasked_last) {
        const uint32_t from_upper = key + column - upper.low, from_lower = key + column - lower.low;
#pragma unroll
        for (int i = 0; i < N / 2; ++i) {
          const uint32_t offset = 8 * (i / 4) + i % 2;
          const bool keep = (i & 2) ? from_lower + offset < lower.count : from_upper + offset < upper.count;
          score[i] = keep ? score[i] : 0.0f;
        }
      }
      key += N;
    };
    const auto score_gradients = [&](uint32_t(&ds)[N / 4]) {
#pragma unroll
      for (int i = 0; i < N / 4; ++i) {
        const float delta = (i & 1) ? lower.delta : upper.delta;
        ds[i] = arch::pack<element>(score[2 * i] * (dp[2 * i] - delta), score[2 * i + 1] * (dp[2 * i + 1] - delta));
      }
    };
    const auto release = [&](arch::Barrier& barrier) {
      __syncwarp();
      if (first_lane) arch::arrive(barrier);
    };

    arch::wait(shared.q_full, 0);
    if (tiles > 0) {
      issue_scores();
      issue_dp();
      arch::wgmma_wait<1>();
      arch::pin(score);
      probabilities();
      arch::wgmma_wait<0>();
      arch::pin(dp);
      release(shared.v_empty[v.slot]);
      v.advance();
      const auto iterate = [&](auto more) {
        constexpr bool kMore = decltype(more)::value, kScoresFirst = Shape::ahead == Ahead::scores_first;
        uint32_t ds[N / 4];
        forget(k_operand);
        forget(q_operand);
        score_gradients(ds);
        arch::pin(dq);
        arch::pin(ds);
        if constexpr (kMore && kScoresFirst) {
          issue_scores();
        } else {
          arch::wgmma_fence();
        }
        issue_dq(ds);
        if constexpr (kMore) {
          if constexpr (!kScoresFirst) issue_scores();
          issue_dp();
          arch::wgmma_wait<2>();
          if constexpr (!kScoresFirst) {
            arch::pin(dq);
            arch::pin(ds);
            release(shared.k_empty[k_done.slot]);
            arch::wgmma_wait<1>();
          }
          arch::pin(score);
          probabilities();
          arch::pin(score);
          arch::wait(shared.v_full[v.slot], v.parity);  // passes: keeps the exponentials above the next wait
        }
        arch::wgmma_wait<0>();
        if constexpr (!kMore || kScoresFirst) {
          arch::pin(dq);
          arch::pin(ds);
        }
        if constexpr (kMore) {
          arch::pin(dp);
          if constexpr (kScoresFirst) release(shared.k_empty[k_done.slot]);
          release(shared.v_empty[v.slot]);
          k_done.advance();
          v.advance();
        }
      };
#pragma unroll 1
      for (int t = 1; t < tiles; ++t) iterate(std::true_type{});
      iterate(std::false_type{});
    }

    // Each warp's 16 rows of q were read by this warp's products alone: they take dQ. A dead row is zero whatever it computed.
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dq[i] = ((i & 2) ? lower.live : upper.live) ? dq[i] * args.scale : 0.0f;
    tile::store_accumulators<element, D>(shared.q.address(), M, 64 * warpgroup, thread, dq);
    arch::fence_shared_for_async();
    __syncwarp();
    if (first_lane) {
      const int tile_row = 64 * warpgroup + 16 * (thread >> 5);
      const Coordinates rows =
          coordinates(args.query_offsets != nullptr, s.index, s.query_start, 0, s.query_rows, first_row + tile_row);
#pragma unroll
      for (int panel = 0; panel < tile::panels(D); ++panel) {
        arch::store_box(args.grad_q, shared.q.address() + panel * shared.q.panel_bytes + tile_row * tile::kPanelRowBytes, panel * 64,
                        rows.row, work.head, rows.batch);
      }
      arch::commit_stores();
      arch::wait_stores();
    }
  }
}

}  // namespace deckle::kernels::cuda::attention
