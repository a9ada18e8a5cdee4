// dK and dV of attention for head dims whose accumulators do not fit one warpgroup. One thread block owns 64 keys of one kv head; two
// warpgroups share the tiles and divide the results:
//
//   warpgroup 0: S^T = K Q^T, P^T, dV += P^T dO                                     2 products
//   warpgroup 1: S^T = K Q^T, P^T, dP^T = V dO^T, dS^T = P^T (dP^T - delta), dK += dS^T Q     3 products
//
// S is computed twice (5 products instead of 4) in exchange for one accumulator of D / 2 registers a thread, no exchange through shared
// memory and no barrier between the two: their exponentials fall under each other's products.
#pragma once

#include "deckle/kernels/cuda/attention/backward_keys.cuh"

namespace deckle::kernels::cuda::attention {

template <Element element_, int D_, int Dv_, int stages_>
struct KeyGradientsSplit {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = Dv_;
  static constexpr int M = 64, N = 64;
  static constexpr int warpgroups = 2;
  static constexpr int stages = stages_;
  static constexpr int threads = 384;

  struct Shared {
    tile::SharedTile<N, D> k;
    tile::SharedTile<N, Dv> v;
    tile::SharedTile<M, D> q[stages];
    tile::SharedTile<M, Dv> grad_out[stages];
    alignas(16) float lse2[stages][M];
    alignas(16) float delta[stages][M];
    arch::Barrier kv_full;
    arch::Barrier q_full[stages], q_empty[stages];
    arch::Barrier grad_full[stages], grad_empty[stages];
  };
  static constexpr int shared_bytes = sizeof(Shared) + 1024;  // room to align
  static_assert(shared_bytes <= kMaxSharedBytes);
};

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) key_gradients_split(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, Dv = Shape::Dv, stages = Shape::stages;
  constexpr Element element = Shape::element;
  extern __shared__ unsigned char raw[];
  auto& shared = *reinterpret_cast<typename Shape::Shared*>(raw + (1024 - arch::shared_address(raw) % 1024) % 1024);

  const Work work = find_work<true>(args, args.heads / args.group, N, false);
  if (work.none) return;
  const SequencePair& s = work.sequence;
  const KeyTileWalk walk = key_tile_walk(s, work.block * N, N, M);

  if (threadIdx.x == 0) {
    arch::init_barrier(shared.kv_full, 1);
    for (int i = 0; i < stages; ++i) {
      arch::init_barrier(shared.q_full[i], 1);
      arch::init_barrier(shared.grad_full[i], 1);
      arch::init_barrier(shared.q_empty[i], 8);
      arch::init_barrier(shared.grad_empty[i], 8);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == 2) {
    arch::shrink_registers<24>();
    if (threadIdx.x == 256) load_queries<Shape>(shared, args, work, walk);
  } else {
    arch::grow_registers<240>();
    const int thread = threadIdx.x & 127;
    const bool first_lane = (thread & 31) == 0;
    const int iterations = walk.tiles * args.group;
    const float scale_log2 = args.scale_log2;

    uint32_t q_operand = tile::operand(shared.q[0].address(), M).low;
    uint32_t k_operand = tile::operand(shared.k.address(), N).low;
    constexpr uint32_t v_from_k = sizeof(shared.k) / 16, grad_from_q = sizeof(shared.q) / 16;
    constexpr uint32_t q_step = sizeof(shared.q[0]) / 16, grad_step = sizeof(shared.grad_out[0]) / 16;
    const uint32_t lse2_address = arch::shared_address(shared.lse2[0]) + 4 * tile::accumulator_column(thread);
    constexpr uint32_t delta_from_lse2 = sizeof(shared.lse2);
    BandMask mask(s, walk, work.block * N, M, thread);

    float score[M / 2];
    Ring<stages> q;  // of the scores in flight or being used
    const auto issue_scores = [&](const Ring<stages>& at) {
      arch::wait(shared.q_full[at.slot], at.parity);
      arch::wgmma_fence();
      tile::multiply_transposed<element, M, D, N, M, true>(score, {k_operand}, {q_operand + at.slot * q_step});
      arch::wgmma_commit();
    };
    const auto probabilities = [&](const Ring<stages>& at) {
      probabilities_transposed<M>(score, lse2_address + at.slot * (M * 4), scale_log2);
      mask.apply<M>(score);
    };
    const auto release = [&](arch::Barrier& barrier) {
      __syncwarp();
      if (first_lane) arch::arrive(barrier);
    };
    // Both warpgroups have read k: when both are done, k and v take dK and dV.
    const auto store = [&]<int columns>(uint32_t address, const CUtensorMap& map, float(&result)[columns / 2]) {
      arch::named_sync<256>(1);
      tile::store_accumulators<element, columns>(address, N, 0, thread, result);
      arch::fence_shared_for_async();
      __syncwarp();
      if (first_lane) {
        const int row = 16 * (thread >> 5);
        const Coordinates keys =
            coordinates(args.query_offsets != nullptr, s.index, s.key_start, 0, s.key_rows, work.block * N + row);
#pragma unroll
        for (int panel = 0; panel < tile::panels(columns); ++panel) {
          arch::store_box(map, address + panel * (N * tile::kPanelRowBytes) + row * tile::kPanelRowBytes, panel * 64, keys.row, work.head,
                          keys.batch);
        }
        arch::commit_stores();
        arch::wait_stores();
      }
    };
    arch::wait(shared.kv_full, 0);

    if (warpgroup == 0) {
      float dv[Dv / 2];
#pragma unroll
      for (int i = 0; i < Dv / 2; ++i) dv[i] = 0.0f;
      if (iterations > 0) {
        issue_scores(q);
        arch::wgmma_wait<0>();
        arch::pin(score);
        probabilities(q);
        release(shared.q_empty[q.slot]);
        const auto iterate = [&](auto more) {
          constexpr bool kMore = decltype(more)::value;
          uint32_t p[M / 4];
          forget(k_operand);
          forget(q_operand);
          tile::pack_operand<element>(p, score);
          Ring<stages> next = q;
          next.advance();
          arch::wait(shared.grad_full[q.slot], q.parity);
          arch::pin(dv);
          arch::pin(p);
          if constexpr (kMore) {
            issue_scores(next);
          } else {
            arch::wgmma_fence();
          }
          tile::multiply<element, Dv, M, false>(dv, p, {q_operand + grad_from_q + q.slot * grad_step});
          arch::wgmma_commit();
          if constexpr (kMore) {
            arch::wgmma_wait<1>();
            arch::pin(score);
            probabilities(next);
            arch::pin(score);
            release(shared.q_empty[next.slot]);
            arch::wait(shared.q_full[next.slot], next.parity);  // passes: keeps the exponentials above the next wait
          }
          arch::wgmma_wait<0>();
          arch::pin(dv);
          arch::pin(p);
          release(shared.grad_empty[q.slot]);
          q = next;
        };
#pragma unroll 1
        for (int j = 0; j < iterations - 1; ++j) iterate(std::true_type{});
        iterate(std::false_type{});
      }
      store.template operator()<Dv>(shared.v.address(), args.grad_v, dv);
    } else {
      float dk[D / 2];
#pragma unroll
      for (int i = 0; i < D / 2; ++i) dk[i] = 0.0f;
      if (iterations > 0) {
        float dp[M / 2];
        const auto issue_dp = [&](const Ring<stages>& at) {
          arch::wait(shared.grad_full[at.slot], at.parity);
          arch::wgmma_fence();
          tile::multiply_transposed<element, M, Dv, N, M, true>(dp, {k_operand + v_from_k},
                                                                {q_operand + grad_from_q + at.slot * grad_step});
          arch::wgmma_commit();
        };
        issue_scores(q);
        issue_dp(q);
        arch::wgmma_wait<1>();
        arch::pin(score);
        probabilities(q);
        arch::wgmma_wait<0>();
        arch::pin(dp);
        const auto iterate = [&](auto more) {
          constexpr bool kMore = decltype(more)::value;
          uint32_t ds[M / 4];
          forget(k_operand);
          forget(q_operand);
          score_gradients_transposed<element, M>(ds, score, dp, lse2_address + delta_from_lse2 + q.slot * (M * 4));
          release(shared.grad_empty[q.slot]);
          Ring<stages> next = q;
          next.advance();
          arch::pin(dk);
          arch::pin(ds);
          arch::wgmma_fence();
          tile::multiply<element, D, M, false>(dk, ds, {q_operand + q.slot * q_step});
          arch::wgmma_commit();
          if constexpr (kMore) {
            issue_scores(next);
            issue_dp(next);
            arch::wgmma_wait<2>();
            arch::pin(dk);
            arch::pin(ds);
            release(shared.q_empty[q.slot]);
            arch::wgmma_wait<1>();
            arch::pin(score);
            probabilities(next);
            arch::pin(score);
            arch::wait(shared.q_full[next.slot], next.parity);
            arch::wgmma_wait<0>();
            arch::pin(dp);
          } else {
            arch::wgmma_wait<0>();
            arch::pin(dk);
            arch::pin(ds);
          }
          q = next;
        };
#pragma unroll 1
        for (int j = 0; j < iterations - 1; ++j) iterate(std::true_type{});
        iterate(std::false_type{});
      }
#pragma unroll
      for (int i = 0; i < D / 2; ++i) dk[i] *= args.scale;
      store.template operator()<D>(shared.k.address(), args.grad_k, dk);
    }
  }
}

}  // namespace deckle::kernels::cuda::attention
