// dK and dV of attention for head dims whose accumulators do not fit one warpgroup. One thread block owns 64 keys of one kv head;
// two warpgroups share the tiles and divide the results:
//
//   warpgroup 0: S^T = K Q^T, P^T          dV += P^T dO          2 products, the exponentials
//   warpgroup 1: dP^T = V dO^T, dS^T       dK += dS^T Q          2 products
//
// P^T goes from one to the other in float32 through shared memory, warp to warp: their accumulators have one layout, so thread t
// reads what thread t wrote, and the pairs of warps meet on named barriers of 64 threads. With three stages each warpgroup queues
// the first product of its next tile before the second of this one, and its arithmetic runs under that; with two the next tile
// may still be on its way, so the second product goes first.
// dS^T may also leave, through a tile of its own, where dQ is a product of its own (backward_score_product.cuh): 5 products in
// place of 7. That costs four matrix stores and one copy a warp and tile.
// Instances: D = 192, 256 and 192/128 (backward_config.cuh).
//
// clang-format off
// Ladder. TFLOP/s of the whole backward by 10 M N D, bf16, H200, 2026-11-21, 3b7c110d (rung 4: 2026-11-23, 2748c468):
// S = 4k, one run each (attention_backward_timing)                     D = 256   D = 192   192/128
//   1  each warpgroup computes S^T and P^T for itself (5 products)     395-397   377-384   371
//   2  P^T through shared memory, the next tile's product first        400-402   408-413   431-434
//   3  with two stages the gradient's product first                    442-446   425       434
//   4  dS^T to memory, dQ from there                                   541-542
// 2 gained nothing at D = 256: with two stages Q(j+1) is loaded where Q(j-1) lay until dK(j-1) was done, and the products queued
// behind S(j+1) waited with it (tensor pipe 56 %, ncu; with 3: 75 %). There 64 KB a tile come from L2, half of what it can give.
// clang-format on
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/backward_key_tiles.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

template <Element element_, int D_, int Dv_, int stages_, int kv_buffers_>
struct KeyGradientsSplit {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = Dv_;
  static constexpr int M = 64, N = 64;
  static constexpr int warpgroups = 2;
  static constexpr int stages = stages_;
  static constexpr int k_buffers = kv_buffers_, v_buffers = kv_buffers_;
  static constexpr bool next_first = stages > 2;
  static constexpr bool leaves_scores = D == Dv;  // where there is room
  static constexpr int threads = 384;
  static constexpr Registers registers = registers_of(2, true);

  struct Shared : KeyTiles<N, M, D, Dv, stages, k_buffers, v_buffers> {
    float4 p[M / 8][128];                                                       // accumulators 4k .. 4k+3 of P^T of each thread
    arch::Barrier kv_read;                                                      // by the products of both warpgroups
    std::conditional_t<leaves_scores, tile::SharedTile<N, M>, Nothing> scores;  // dS^T on its way out
  };
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes);
};

/// P^T on its way between warp w of warpgroup 0, which writes, and warp w of warpgroup 1, which reads. One buffer.
class Exchange {
 public:
  __device__ __forceinline__ explicit Exchange(float4 (*p)[128])
      : address_(arch::shared_address(p) + 16 * (threadIdx.x & 127)), barrier_(1 + 2 * ((threadIdx.x >> 5) & 3)) {}

  __device__ __forceinline__ void wait_empty() { arch::named_sync<64>(barrier_); }
  __device__ __forceinline__ void arrive_empty() { arch::named_arrive<64>(barrier_); }
  __device__ __forceinline__ void wait_full() { arch::named_sync<64>(barrier_ + 1); }
  __device__ __forceinline__ void arrive_full() { arch::named_arrive<64>(barrier_ + 1); }

  __device__ __forceinline__ void write(int k, float a, float b, float c, float d) {
    arch::store_shared_quad(address_ + k * (128 * 16), a, b, c, d);
  }
  __device__ __forceinline__ float4 read(int k) const { return arch::load_shared_quad(address_ + k * (128 * 16)); }

 private:
  uint32_t address_;
  int barrier_;
};

/// dV or dK of the block's keys leaves through the v or k tile, which both warpgroups must have read.
template <Element element, int columns, class Shared, class Tile>
__device__ __forceinline__ void store_split_gradient(Shared& shared, uint32_t read_parity, const Tile& tile,
                                                     const CUtensorMap& map, const Work& work,
                                                     const float (&result)[columns / 2]) {
  const int thread = threadIdx.x & 127, row = 16 * (thread >> 5);
  arch::release(shared.kv_read);
  arch::wait(shared.kv_read, read_parity);
  tile::store_accumulators<element, columns>(tile.address(), Tile::rows, 0, thread, result);
  arch::fence_shared_for_async();
  __syncwarp();
  if ((thread & 31) == 0) {
    tile::store_rows<columns>(tile, row, map, work.keys.row + row, work.head, work.keys.batch);
    arch::commit_stores();
    arch::wait_stores_read();
  }
}

/// dS^T of the tile at `slot` starts on its way to memory, each warp's 16 keys by themselves.
template <class Shape>
__device__ __forceinline__ void leave_scores(typename Shape::Shared& shared, const BackwardArguments& args, const Work& work,
                                             uint32_t slot, const uint32_t (&ds)[Shape::M / 4]) {
  const int thread = threadIdx.x & 127, row = 16 * (thread >> 5);
  if ((thread & 31) == 0) arch::wait_stores_read();
  __syncwarp();
  tile::store_operand<Shape::M>(shared.scores.address(), row, thread, ds);
  arch::fence_shared_for_async();
  __syncwarp();
  if ((thread & 31) == 0) {
    const int plane = (work.sequence.index * (args.heads / args.group) - args.first_plane) * args.group + shared.query_head[slot];
    arch::store_box(args.score_gradients, shared.scores.address() + row * tile::kPanelRowBytes, shared.first_query[slot],
                    work.tile * Shape::N + row, plane, 0);
    arch::commit_stores();
  }
  __syncwarp();
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) key_gradients_split(const __grid_constant__ BackwardArguments args) {
  constexpr int M = Shape::M, N = Shape::N, D = Shape::D, Dv = Shape::Dv, stages = Shape::stages;
  constexpr Element element = Shape::element;
  auto& shared = block_shared<typename Shape::Shared>();
  if (args.leaves_scores < 2) arch::wait_for_dependencies();
  arch::launch_dependents();

  if (threadIdx.x == 0) {
    shared.init_barriers(8, 0);
    arch::init_barrier(shared.kv_read, 8);
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

  Exchange exchange(shared.p);
  if (warpgroup == 1) exchange.arrive_empty();
  Ring<kWorkSlots> slot;
  Ring<Shape::k_buffers> kv;
  uint32_t read_parity = 0;
  Ring<stages> ring;  // of the tile whose result product is issued next
  for (;; slot.advance(), kv.advance(), read_parity ^= 1) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) break;
    arch::wait(shared.k_full[kv.slot], kv.parity);
    arch::wait(shared.v_full[kv.slot], kv.parity);
    int remaining = work.walk.count * args.group;
    KeySteps<Shape> steps(shared, args, work, kv.slot, kv.slot, 0);

    if (warpgroup == 0) {
      float dv[Dv / 2], score[M / 2];
#pragma unroll
      for (int i = 0; i < Dv / 2; ++i) dv[i] = 0.0f;
      const auto hand_over = [&] {
        exchange.wait_empty();
#pragma unroll
        for (int k = 0; k < M / 8; ++k) exchange.write(k, score[4 * k], score[4 * k + 1], score[4 * k + 2], score[4 * k + 3]);
        exchange.arrive_full();
      };
      if (remaining > 0) {
        steps.issue_scores(score, ring).wait();
        steps.probabilities(score, ring);
        arch::release(shared.q_empty[ring.slot]);
        hand_over();
        const auto iterate = [&](auto more) {
          constexpr bool kMore = decltype(more)::value;
          uint32_t p[M / 4];
          steps.forget_operands();
          tile::pack_operand<element>(p, score);
          Ring<stages> next = ring;
          next.advance();
          arch::wait(shared.grad_full[ring.slot], ring.parity);
          tile::settle(dv, p);
          if constexpr (kMore && Shape::next_first) {
            steps.issue_scores(score, next);
          } else {
            tile::begin();
          }
          tile::multiply<element, Dv, M, false>(dv, p, steps.grad_at(ring));
          const auto dv_under_way = tile::commit(dv, p);
          if constexpr (kMore) {
            if constexpr (Shape::next_first) {
              tile::wait<1>(score);
            } else {
              const auto scores_under_way = steps.issue_scores(score, next);
              dv_under_way.template wait<1>();
              arch::release(shared.grad_empty[ring.slot]);
              scores_under_way.wait();
            }
            steps.probabilities(score, next);
            tile::settle(score);
            arch::release(shared.q_empty[next.slot]);
            hand_over();
          }
          if constexpr (!kMore || Shape::next_first) {
            dv_under_way.wait();
            arch::release(shared.grad_empty[ring.slot]);
          }
          ring = next;
        };
#pragma unroll 1
        for (; remaining > 1; --remaining) iterate(std::true_type{});
        iterate(std::false_type{});
      }
      store_split_gradient<element, Dv>(shared, read_parity, shared.v[kv.slot], args.grad_v, work, dv);
    } else {
      float dk[D / 2], dp[M / 2];
      uint32_t ds[M / 4];
#pragma unroll
      for (int i = 0; i < D / 2; ++i) dk[i] = 0.0f;
      if (remaining > 0) {
        // dS^T in place of dP^T, of the tile at `ring`. Packed only when the product before has read its operand.
        const auto score_gradients = [&] {
          exchange.wait_full();
          steps.score_gradients(
              dp, [&](int k) { return exchange.read(k); }, ring);
          exchange.arrive_empty();
          arch::release(shared.grad_empty[ring.slot]);
        };
        steps.issue_dp(dp, ring).wait();
        score_gradients();
        const auto iterate = [&](auto more) {
          constexpr bool kMore = decltype(more)::value;
          steps.forget_operands();
          tile::pack_operand<element>(ds, dp);
          if constexpr (Shape::leaves_scores) {
            if (args.leaves_scores != 0) leave_scores<Shape>(shared, args, work, ring.slot, ds);
          }
          const Ring<stages> now = ring;
          ring.advance();
          arch::wait(shared.q_full[now.slot], now.parity);
          tile::settle(dk, ds);
          if constexpr (kMore && Shape::next_first) {
            steps.issue_dp(dp, ring);
          } else {
            tile::begin();
          }
          tile::multiply<element, D, M, false>(dk, ds, steps.q_at(now));
          const auto dk_under_way = tile::commit(dk, ds);
          if constexpr (kMore) {
            if constexpr (Shape::next_first) {
              tile::wait<1>(dp);
            } else {
              const auto dp_under_way = steps.issue_dp(dp, ring);
              dk_under_way.template wait<1>();
              arch::release(shared.q_empty[now.slot]);
              dp_under_way.wait();
            }
            score_gradients();
            tile::settle(dp);
            if constexpr (Shape::next_first)
              arch::wait(shared.q_full[now.slot], now.parity);  // passes: keeps the arithmetic above the next wait
          }
          if constexpr (!kMore || Shape::next_first) {
            dk_under_way.wait();
            arch::release(shared.q_empty[now.slot]);
          }
        };
#pragma unroll 1
        for (; remaining > 1; --remaining) iterate(std::true_type{});
        iterate(std::false_type{});
      }
#pragma unroll
      for (int i = 0; i < D / 2; ++i) dk[i] *= args.scale;
      store_split_gradient<element, D>(shared, read_parity, shared.k[kv.slot], args.grad_k, work, dk);
    }
    arch::release(shared.k_empty[kv.slot]);
    arch::release(shared.v_empty[kv.slot]);
    arch::release(shared.queue.done[slot.slot]);
  }
  if (warpgroup == 0) exchange.wait_empty();  // every arrival is met
  arch::wait_stores();
  if (args.leaves_scores == 2) finish_after_predecessor();
}

}  // namespace deckle::kernels::cuda::attention
