// out = softmax(mask(scale q kᵀ)) v and the log-sum-exp of each row, for one warp-specialised persistent block per SM.
//                                                   q [M, D], k [N, D], v [N, Dv], out [M, Dv] of each (sequence, head)
//
// FLOPs 2 M N (D + Dv) on the tensor cores; bytes 2 (M D + M Dv + N D + N Dv) if k and v come from memory once, so it is bound by
// the tensor cores beyond a few hundred keys. Beside them: one exp per score (16 a clock and SM: as long as the products at D =
// 64, half at 128).
//
// One producer thread draws work items and streams q, k, v through shared memory by TMA; each consumer warpgroup owns 64 query
// rows and never speaks to the others: they drift apart, and the exponentials of one hide under the products of the others.
//
// Schedules (template parameter):
//   together = false   s = q kᵀ, softmax, out += p v, one after the other: four warpgroups fill each other's gaps (D = 64)
//   together = true    q k(j+1)ᵀ is issued with p(j) v, so softmax(j+1) also runs under this warpgroup's own product (others)
//
// Instances: bf16 and f16 x D/Dv of forward_config.cuh. The ladder, TFLOP/s on an H200 at S = 16,384, 2,048 wide, full mask, bf16
// (run "shapes 2" of benchmarks/results/attention_cuda_choices.json; the others and what was rejected: docs/hopper.md):
//   D = 128   v1 2 warpgroups, 128 keys, together              624
//             v2 3 warpgroups, 128 keys, one after the other   646
//             v3 3 warpgroups, 80 keys, together               662   cuDNN 604; v2 and v3 in later runs: 675/670,
//                                                               663/670, and 668 to 675 / 679 to 699 in four readings each
//             v4 v3 with kept references (KeptReference)       692 -> 722 in one run, causal 652 -> 672   <- this file
//   D = 64    v1 3 warpgroups, 128 keys, one after the other   484
//             v2 4 warpgroups, 96 keys, one after the other    510   cuDNN 455
//             v3 v2 with kept references                       536 -> 588 in one run, causal 517 -> 571   <- this file
//   D = 256   v1 2 warpgroups, 80 keys, together               642
//   (S = 4k)  v2 2 warpgroups, 64 keys, together               665   cuDNN 651; v1 and v2 in a later run: 681/684
//             v3 v2 with kept references                       680 -> 693 in one run   <- this file
//
// Relies on: 227 KB of shared memory and 64 Ki registers an SM; wgmma at full rate from shared memory for N > 64; named barriers
// of a warpgroup; tensor maps that clip at a sequence's end (tile/tensor_map.h).
#pragma once

#include <type_traits>

#include "deckle/kernels/cuda/attention/forward_store.cuh"
#include "deckle/kernels/cuda/attention/forward_walk.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

template <class Config>
__device__ __forceinline__ void consume(const ForwardArguments& args, ForwardStorage<Config>& shared, int warpgroup) {
  constexpr int N = Config::keys, D = Config::D, Dv = Config::Dv;
  constexpr Element element = Config::element;
  const DeviceProblem& problem = args.problem;
  const float c = problem.scale_log2;
  Ring<Config::query_buffers> q;
  Ring<Config::stages> kv;
  for (;;) {
    arch::wait(shared.q_full[q.slot], q.parity);
    const ForwardItem& item = shared.items[q.slot];
    if (arch::uniform(item.head) < 0) return;
    const tile::Operand q_rows = tile::operand(shared.q[q.slot].address(), Config::rows, 64 * warpgroup);
    uint32_t q_registers[Config::register_q ? D / 4 : 1];
    if constexpr (Config::register_q) {
      tile::load_operand<D>(q_registers, shared.q[q.slot].address(), Config::rows, 64 * warpgroup, threadIdx.x);
    }
    const auto issue_scores = [&](float(&scores)[N / 2]) {
      arch::wait(shared.k_full[kv.slot], kv.parity);
      const auto multiply = [&] {
        const tile::Operand k_rows = tile::operand(shared.k[kv.slot].address(), N);
        if constexpr (Config::register_q) {
          tile::settle(q_registers);
          tile::multiply_transposed<element, N, D, N, true>(scores, q_registers, k_rows);
        } else {
          tile::multiply_transposed<element, N, D, Config::rows, N, true>(scores, q_rows, k_rows);
        }
      };
      return tile::issue(multiply, scores);
    };
    TileRange range = tile_range<Config>(problem, item, warpgroup);
    if constexpr (Config::scored) {
      if (args.scores.walks.visits != nullptr && item.first_row + 64 * warpgroup < item.queries) {  // places in the walk
        range.begin = arch::uniform(item.tile_begin);
        range.end = arch::uniform(item.tile_end);
      }
    }
    // Tiles [inner_begin, kept_end) keep the references that their rows have after tile kept_end.
    int kept_end = min(range.inner_end, range.end) - 1;
    if constexpr (Config::keeps_reference) {
      const int repeated = arch::uniform(item.repeated);
      if (repeated != 0) kept_end = range.inner_begin;
      if (repeated != 0 && (repeated >> warpgroup & 1) == 0) range.begin = range.end = arch::uniform(item.tile_begin);
    }
    float out[Dv / 2];
#pragma unroll
    for (int i = 0; i < Dv / 2; ++i) out[i] = 0.0f;
    RowState state;
    state.reset();
    const auto issue_out = [&](uint32_t(&p)[N / 4], const Ring<Config::stages>& v) {
      arch::wait(shared.v_full[v.slot], v.parity);
      tile::settle(out, p);
      const auto multiply = [&] { tile::multiply<element, Dv, N, false>(out, p, tile::operand(shared.v[v.slot].address(), N)); };
      return tile::issue(multiply, out, p);
    };

    const auto skip = [&] {  // a tile of other warpgroups
      arch::wait(shared.k_full[kv.slot], kv.parity);
      arch::release(shared.k_empty[kv.slot]);
      arch::wait(shared.v_full[kv.slot], kv.parity);
      arch::release(shared.v_empty[kv.slot]);
      kv.advance();
    };
    const auto edge = [&](int j) { return j < range.inner_begin || j >= range.inner_end; };
    const auto keeps = [&](int j) { return Config::keeps_reference && j >= range.inner_begin && j < kept_end; };
    const auto walk = [&](auto&& features) {
      constexpr bool kMayBeFar = std::remove_cvref_t<decltype(features)>::kMayBeFar;
      const auto apply = [&](int tile, float(&scores)[N / 2]) {
        if constexpr (std::remove_cvref_t<decltype(features)>::kMixesScores) {
          // By a finite number: times a scale of 0, -inf would be NaN.
          if (edge(tile)) mask_tile<Config>(problem, item, warpgroup, tile, scores, 0.0f);
        }
        features.apply(scores, tile);
      };
      const auto fetch = [&](int j) { features.fetch(j >= range.begin ? features.at(j).tile : -1); };
      int j = arch::uniform(item.tile_end) - 1;
      const int last = arch::uniform(item.tile_begin);
#pragma unroll 1
      for (; j >= range.end && j >= last; --j) skip();
      fetch(j);

      if constexpr (!Config::together) {
#pragma unroll 1
        for (; j >= range.begin; --j) {
          float scores[N / 2], rescale[2];
          uint32_t p[N / 4];
          const auto at = features.at(j);
          features.prepare(at);
          const auto scores_under_way = issue_scores(scores);
          features.draw(at.tile);
          scores_under_way.wait();
          arch::release_tile(shared.k_empty[kv.slot]);

          apply(at.tile, scores);
          fetch(j - 1);
          if (edge(at.tile)) mask_tile<Config>(problem, item, warpgroup, at.tile, scores);
          features.mask(scores, at);
          if (!keeps(at.tile) && update_maximum<N>(scores, state, rescale, c)) scale_rows(out, rescale);
          exponentiate<N, kMayBeFar>(scores, state, c);
          tile::pack_operand<element>(p, scores);
          features.drop(p);

          issue_out(p, kv).wait();
          arch::release_tile(shared.v_empty[kv.slot]);
          kv.advance();
        }
      } else if (j >= range.begin) {
        uint32_t p[N / 4];
        {
          float scores[N / 2], rescale[2];
          const auto at = features.at(j);
          features.prepare(at);
          const auto scores_under_way = issue_scores(scores);
          features.draw(at.tile);
          scores_under_way.wait();
          arch::release_tile(shared.k_empty[kv.slot]);
          apply(at.tile, scores);
          fetch(j - 1);
          if (edge(at.tile)) mask_tile<Config>(problem, item, warpgroup, at.tile, scores);
          features.mask(scores, at);
          update_maximum<N>(scores, state, rescale, c);
          exponentiate<N, kMayBeFar>(scores, state, c);
          tile::pack_operand<element>(p, scores);
          features.drop(p);
        }
        Ring<Config::stages> v = kv;  // one tile behind k
        kv.advance();
#pragma unroll 1
        for (--j; j >= range.begin; --j) {
          float scores[N / 2], rescale[2];
          tile::settle(out, p);
          const auto at = features.at(j);
          features.prepare(at);
          const auto scores_under_way = issue_scores(scores);
          const auto out_under_way = issue_out(p, v);
          features.draw(at.tile);
          scores_under_way.template wait<1>();
          arch::release_tile(shared.k_empty[kv.slot]);

          apply(at.tile, scores);
          fetch(j - 1);
          if (edge(at.tile)) mask_tile<Config>(problem, item, warpgroup, at.tile, scores);
          features.mask(scores, at);
          const bool rescales = !keeps(at.tile) && update_maximum<N>(scores, state, rescale, c);
          exponentiate<N, kMayBeFar>(scores, state, c);

          out_under_way.wait();
          arch::release_tile(shared.v_empty[v.slot]);
          if (rescales) scale_rows(out, rescale);
          tile::pack_operand<element>(p, scores);
          features.drop(p);
          v = kv;
          kv.advance();
        }
        issue_out(p, v).wait();
        arch::release_tile(shared.v_empty[v.slot]);
      }
#pragma unroll 1
      for (; j >= last; --j) skip();
    };
    with_features<Config>(args, shared, item, warpgroup, walk);

    bool stores = true;
    if constexpr (Config::keeps_reference) {
      const bool fails = range.inner_begin < kept_end && KeptReference::failed(state, out);
      const int failed = arch::uniform(arch::named_any<128>(1 + warpgroup, fails)), repeated = arch::uniform(item.repeated);
      stores = failed == 0 && (repeated == 0 || (repeated >> warpgroup & 1) != 0);
      if (!stores) {
        if (threadIdx.x % 128 == 0) atomicOr(&shared.items[q.slot].failed, failed << warpgroup);
        arch::release(shared.q_empty[q.slot]);
      }
    } else {
      arch::named_sync<128>(1 + warpgroup);  // all four warps are done with q
    }
    if (stores) store_output<Config>(args, shared, q.slot, item, warpgroup, out, state);
    q.advance();
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::threads, Config::blocks)
    attention_forward_kernel(const __grid_constant__ ForwardArguments args) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<ForwardStorage<Config>*>(memory);
  const int warpgroup = arch::warpgroup_index();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Config::query_buffers; ++i) {
      arch::init_barrier(shared.q_full[i], 1);
      arch::init_barrier(shared.q_empty[i], 4 * Config::warpgroups);
      shared.items[i].failed = 0;
    }
    for (int i = 0; i < Config::stages; ++i) {
      arch::init_barrier(shared.k_full[i], 1);
      arch::init_barrier(shared.v_full[i], 1);
      arch::init_barrier(shared.k_empty[i], 4 * Config::warpgroups);
      arch::init_barrier(shared.v_empty[i], 4 * Config::warpgroups);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();
  if (warpgroup == Config::warpgroups) {
    if constexpr (Config::moves_registers) arch::shrink_registers<Config::producer_registers>();
    if (threadIdx.x % 128 == 0) produce<Config>(args, shared);
  } else {
    if constexpr (Config::moves_registers) arch::grow_registers<Config::consumer_registers>();
    consume<Config>(args, shared, warpgroup);
  }
}

}  // namespace deckle::kernels::cuda::attention
