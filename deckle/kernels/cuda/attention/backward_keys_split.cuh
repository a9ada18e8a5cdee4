// dK and dV of attention for head dims whose accumulators do not fit one warpgroup. One thread block owns 64 keys of one kv head;
// two warpgroups share the tiles and divide the results:
//
//   warpgroup 0: S^T = K Q^T, P^T, dV += P^T dO                                     2 products
//   warpgroup 1: S^T = K Q^T, P^T, dP^T = V dO^T, dS^T = P^T (dP^T - delta), dK += dS^T Q     3 products
//
// S is computed twice (5 products instead of 4) in exchange for one accumulator of D / 2 registers a thread, no exchange through
// shared memory and no barrier between the two: their exponentials fall under each other's products.
// Instances: D = 192, 256 and 192/128. D = 256, S = 4k: 400 TFLOP/s by 10 M N D of the whole backward (attention_backward_timing,
// H200, 2026-11-21), 16 executed. Alone (ncu) this kernel runs at 709 executed TFLOP/s, 75 % of the tensor pipe at 1.75 GHz;
// 64-wide products from shared memory need all of its bandwidth. Next: dK^T and dV^T with the columns divided among the
// warpgroups (4 products, P and dS through shared memory).
#pragma once

#include "deckle/kernels/cuda/attention/backward_keys.cuh"

namespace deckle::kernels::cuda::attention {

template <Element element_, int D_, int Dv_, int stages_, int kv_buffers_>
struct KeyGradientsSplit {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = Dv_;
  static constexpr int M = 64, N = 64;
  static constexpr int warpgroups = 2;
  static constexpr int stages = stages_;
  static constexpr int kv_buffers = kv_buffers_;
  static constexpr int threads = 384;
  static constexpr Registers registers = registers_of(2, D > 192);

  struct Shared {
    tile::SharedTile<N, D> k[kv_buffers];
    tile::SharedTile<N, Dv> v[kv_buffers];
    tile::SharedTile<M, D> q[stages];
    tile::SharedTile<M, Dv> grad_out[stages];
    alignas(16) float lse2[stages][M];
    alignas(16) float delta[stages][M];
    WorkQueue queue;
    arch::Barrier kv_full[kv_buffers], kv_empty[kv_buffers];
    arch::Barrier kv_read;  // by the products of both warpgroups
    arch::Barrier q_full[stages], q_empty[stages];
    arch::Barrier grad_full[stages], grad_empty[stages];
  };
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes);
};

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) key_gradients_split(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, Dv = Shape::Dv, stages = Shape::stages;
  constexpr Element element = Shape::element;
  auto& shared = block_shared<typename Shape::Shared>();
  arch::wait_for_dependencies();
  arch::launch_dependents();

  if (threadIdx.x == 0) {
    constexpr int kWarps = 8;
    arch::init_barrier(shared.kv_read, kWarps);
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
  if (warpgroup == 2) {
    arch::shrink_registers<Shape::registers.producer>();
    if (threadIdx.x == 256) load_key_work<Shape>(shared, args);
    if (threadIdx.x == 256 + 32) schedule<true, N, M>(shared.queue, args, args.heads / args.group);
    return;
  }
  arch::grow_registers<Shape::registers.consumer>();
  const int thread = threadIdx.x & 127;
  const bool first_lane = (thread & 31) == 0;
  const float scale_log2 = args.scale_log2;
  const uint32_t lse2_address = arch::shared_address(shared.lse2[0]) + 4 * tile::accumulator_column(thread);
  constexpr uint32_t delta_from_lse2 = sizeof(shared.lse2);
  constexpr uint32_t q_step = sizeof(shared.q[0]) / 16, grad_step = sizeof(shared.grad_out[0]) / 16;
  constexpr uint32_t k_step = sizeof(shared.k[0]) / 16, v_step = sizeof(shared.v[0]) / 16;
  const auto release = [&](arch::Barrier& barrier) {
    __syncwarp();
    if (first_lane) arch::arrive(barrier);
  };

  Ring<kWorkSlots> slot;
  Ring<Shape::kv_buffers> kv;
  uint32_t read_parity = 0;
  Ring<stages> q;  // of the tile whose scores are in use
  for (;; slot.advance(), kv.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    arch::wait(shared.kv_full[kv.slot], kv.parity);
    int remaining = work.walk.count * args.group;
    uint32_t q_operand = tile::operand(shared.q[0].address(), M).low;
    uint32_t k_operand = tile::operand(shared.k[0].address(), N).low + kv.slot * k_step;
    uint32_t grad_operand = tile::operand(shared.grad_out[0].address(), M).low;
    uint32_t v_operand = tile::operand(shared.v[0].address(), N).low + kv.slot * v_step;
    BandMask mask(work.sequence, work.walk, work.tile * N, M, thread);

    float score[M / 2];
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
    // Both warpgroups have read k: when both are done, k and v take dK and dV.
    const auto store = [&]<int columns>(uint32_t address, const CUtensorMap& map, float(&result)[columns / 2]) {
      release(shared.kv_read);
      arch::wait(shared.kv_read, read_parity);
      tile::store_accumulators<element, columns>(address, N, 0, thread, result);
      arch::fence_shared_for_async();
      __syncwarp();
      if (first_lane) {
        const int row = 16 * (thread >> 5);
#pragma unroll
        for (int panel = 0; panel < tile::panels(columns); ++panel) {
          arch::store_box(map, address + panel * (N * tile::kPanelRowBytes) + row * tile::kPanelRowBytes, panel * 64,
                          work.keys.row + row, work.head, work.keys.batch);
        }
        arch::commit_stores();
        arch::wait_stores_read();
        arch::arrive(shared.kv_empty[kv.slot]);
        arch::arrive(shared.queue.done[slot.slot]);
      }
      __syncwarp();
      read_parity ^= 1;
    };

    if (warpgroup == 0) {
      float dv[Dv / 2];
#pragma unroll
      for (int i = 0; i < Dv / 2; ++i) dv[i] = 0.0f;
      if (remaining > 0) {
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
          tile::multiply<element, Dv, M, false>(dv, p, {grad_operand + q.slot * grad_step});
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
        for (; remaining > 1; --remaining) iterate(std::true_type{});
        iterate(std::false_type{});
      }
      store.template operator()<Dv>(shared.v[kv.slot].address(), args.grad_v, dv);
    } else {
      float dk[D / 2];
#pragma unroll
      for (int i = 0; i < D / 2; ++i) dk[i] = 0.0f;
      if (remaining > 0) {
        float dp[M / 2];
        const auto issue_dp = [&](const Ring<stages>& at) {
          arch::wait(shared.grad_full[at.slot], at.parity);
          arch::wgmma_fence();
          tile::multiply_transposed<element, M, Dv, N, M, true>(dp, {v_operand}, {grad_operand + at.slot * grad_step});
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
            release(shared.q_empty[q.slot]);
          }
          q = next;
        };
#pragma unroll 1
        for (; remaining > 1; --remaining) iterate(std::true_type{});
        iterate(std::false_type{});
      }
#pragma unroll
      for (int i = 0; i < D / 2; ++i) dk[i] *= args.scale;
      store.template operator()<D>(shared.k[kv.slot].address(), args.grad_k, dk);
    }
  }
  arch::wait_stores();
}

}  // namespace deckle::kernels::cuda::attention
