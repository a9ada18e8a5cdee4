// The whole backward of the short sequences of a ragged batch: at most 128 query rows and keys, loaded and stored once each.
//
//   S = Q K^T    P = 2^(scale log2e S - lse2)    dP = dO V^T    delta = rowsum(P dP) - dLSE    dS = P (dP - delta)
//   dQ = scale dS K    dV = P^T dO    dK = scale dS^T Q
//
// 5 products instead of 7, no statistics kernel, and O is not read: the scores of a row lie in one warpgroup. They are not
// transposed here, so that row sums stay in a quad of lanes; P and dS go through shared memory to become transposed operands.
//
// A block of two warpgroups works on items: one head of a sequence of up to 128 rows and keys, of which each warpgroup has 64
// rows, and then 64 keys; or two heads of one of up to 64, a warpgroup each. The next item arrives meanwhile: one warp finds and
// loads items, another brings the statistics. Results leave by where P and dS lay, so that an item's operands are free when its
// products are done. Bytes per row: 2 (4 D + 3 D); bound by memory, if its latency is hidden.
//
// Instances: D = 64. Several query heads of a key head are added up in registers, which are there in tiles of 64 alone.
#pragma once

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

/// What a block works on next. Written by the loader; `sequence` is the same for all heads of a group.
struct ShortStep {
  SequencePair sequence;
  int head;   // of q, of the first unit; -1: no more work
  int units;  // heads of a sequence of one tile, a warpgroup each; 0: one head of a longer sequence
};

/// All of a ShortStep but which head of the group it is.
struct ShortItem {
  SequencePair sequence;
  int kv_head, units;
};

template <Element element_, int D_>
struct ShortGradients {
  static constexpr Element element = element_;
  static constexpr int D = D_;
  static constexpr int threads = 384;
  static constexpr int slots = 2;
  static constexpr Registers registers{56, 224};

  struct Shared {
    tile::SharedTile<128, D> q[slots], k[slots], v[slots], grad_out[slots];
    tile::SharedTile<128, 64> p[2], ds[2];  // of 64 keys each; then what leaves
    float lse2[slots][128], grad_lse[slots][128];
    ShortStep steps[slots];
    ShortItem found[32];
    arch::Barrier drawn[slots], full[slots], empty[slots];
  };
  static constexpr int shared_bytes = sizeof(Shared);
  static_assert(shared_bytes <= kMaxSharedBytes && D == 64);
};

struct ShortArguments {
  BackwardArguments common;  // maps: boxes of 64 rows to load, of 16 rows to store
  const float* lse;
  const float* grad_lse;                   // null: zero
  AttentionTensor grad_q, grad_k, grad_v;  // for rows without a partner, which are written apart
};

/// Zeroes `rows` rows from `first` on; a whole warpgroup.
__device__ __forceinline__ void write_zeros(const AttentionTensor& tensor, int64_t first, int rows, int head, int columns) {
  const int chunks = columns / 8;
  for (int i = threadIdx.x & 127; i < rows * chunks; i += 128) {
    const int64_t offset = (first + i / chunks) * tensor.row_stride + head * tensor.head_stride + i % chunks * 8;
    *reinterpret_cast<uint4*>(static_cast<uint16_t*>(tensor.data) + offset) = make_uint4(0, 0, 0, 0);
  }
}

/// The loader, a warp. Finding an item takes as long as working on one, a chain of two loads: so each lane finds one, and the
/// items of a block, the longer sequences first, are known from its index. Then one thread loads them, step by step.
template <class Shape>
__device__ __forceinline__ void load_short(typename Shape::Shared& shared, const ShortArguments& args) {
  const BackwardArguments& common = args.common;
  const int kv_heads = common.heads / common.group, pairs = (kv_heads + 1) / 2;
  const int lane = threadIdx.x & 31, stride = static_cast<int>(gridDim.x), longer = common.list->longer;
  const int of_longer = longer * kv_heads, all = of_longer + (common.list->count - longer) * pairs;
  constexpr uint32_t kHalf = 64 * tile::kPanelRowBytes;
  Ring<Shape::slots> ring;
  for (int base = blockIdx.x;; base += 32 * stride) {
    if (const int index = base + lane * stride; index < all) {
      const bool alone = index >= of_longer;
      const int per_sequence = alone ? pairs : kv_heads, rest = alone ? index - of_longer : index;
      ShortItem& item = shared.found[lane];
      item.kv_head = (alone ? 2 : 1) * (rest % per_sequence);
      item.units = alone ? min(2, kv_heads - item.kv_head) : 0;
      write_sequence(item.sequence, common.items[(alone ? longer : 0) + rest / per_sequence].sequence, common);
    }
    __syncwarp();
    if (lane == 0) {
#pragma unroll 1
      for (int i = 0; i < 32; ++i) {
        const bool more = base + i * stride < all;
        const ShortItem& item = shared.found[i];
        const SequencePair& s = item.sequence;
        const int units = item.units, kv_head = item.kv_head;
#pragma unroll 1
        for (int g = 0; g < (more ? common.group : 1); ++g, ring.advance()) {
          arch::wait(shared.empty[ring.slot], ring.parity ^ 1);
          ShortStep& step = shared.steps[ring.slot];
          if (more) step.sequence = s;
          step.units = units;
          step.head = more ? kv_head * common.group + g : -1;
          arch::arrive(shared.drawn[ring.slot]);
          if (!more || s.live_rows == 0) {  // a copy that lies outside its map altogether faults
            arch::arrive(shared.full[ring.slot]);
            continue;
          }
          const Coordinates queries = coordinates(true, s.index, s.query_start, s.live_first, s.live_rows, 0, common.query_rows);
          const Coordinates keys = coordinates(true, s.index, s.key_start, 0, s.key_rows, 0, common.key_rows);
          const int query_boxes = units > 0 ? units : (s.live_rows + 63) / 64,
                    key_boxes = units > 0 ? units : (s.key_rows + 63) / 64;
          arch::expect_bytes(shared.full[ring.slot], 2 * (query_boxes + key_boxes) * kHalf);
          const auto load = [&](const auto& tile, const CUtensorMap& map, const Coordinates& at, int head, int boxes, int heads) {
            for (int box = 0; box < boxes; ++box) {
              arch::load_box(tile.address() + box * kHalf, map, shared.full[ring.slot], 0, at.row + (units > 0 ? 0 : 64 * box),
                             head + (units > 0 ? box * heads : 0), at.batch, arch::CacheHint::evict_first);
            }
          };
          load(shared.q[ring.slot], common.q, queries, kv_head * common.group + g, query_boxes, common.group);
          load(shared.k[ring.slot], common.k, keys, kv_head, key_boxes, 1);
          load(shared.grad_out[ring.slot], common.grad_out, queries, kv_head * common.group + g, query_boxes, common.group);
          load(shared.v[ring.slot], common.v, keys, kv_head, key_boxes, 1);
        }
        if (!more) break;
      }
    }
    __syncwarp();
    if (base + 31 * stride >= all) return;
  }
}

/// One warp: the statistics of each step's rows, which lie far apart in memory.
template <class Shape>
__device__ __forceinline__ void load_short_statistics(typename Shape::Shared& shared, const ShortArguments& args) {
  const BackwardArguments& common = args.common;
  const int lane = threadIdx.x & 31;
  for (Ring<Shape::slots> ring;; ring.advance()) {
    arch::wait(shared.drawn[ring.slot], ring.parity);
    const ShortStep& step = shared.steps[ring.slot];
    if (step.head < 0) return arch::release(shared.full[ring.slot]);
    const SequencePair& s = step.sequence;
    float lse2[4], grad_lse[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int unit = step.units > 0 ? i / 2 : 0, row = lane + (step.units > 0 ? 32 * (i % 2) : 32 * i);
      const bool exists = row < s.live_rows && (unit == 0 || unit < step.units);
      const int64_t index = (s.query_start + s.live_first + row) * common.heads + step.head + unit * common.group;
      lse2[i] = exists ? args.lse[index] * 1.4426950408889634f : INFINITY;  // a row that does not exist has P = 0
      grad_lse[i] = exists && args.grad_lse != nullptr ? args.grad_lse[index] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      shared.lse2[ring.slot][32 * i + lane] = lse2[i];
      shared.grad_lse[ring.slot][32 * i + lane] = grad_lse[i];
    }
    arch::release(shared.full[ring.slot]);
  }
}

/// What a warpgroup does of an item: L = 64, all of one head of a sequence of one tile; L = 128, half of one of a longer one.
template <class Shape, int L>
__device__ __forceinline__ void short_item(typename Shape::Shared& shared, const ShortArguments& args, Ring<Shape::slots>& ring,
                                           int warpgroup) {
  constexpr int D = Shape::D;
  constexpr Element element = Shape::element;
  constexpr bool kAlone = L == 64;
  const BackwardArguments& common = args.common;
  const int thread = threadIdx.x & 127, warp_row = 16 * (thread >> 5), unit = kAlone ? warpgroup : 0;
  const bool first_lane = (thread & 31) == 0;
  const auto meet = [&] {  // whoever writes what this warpgroup reads of P and dS
    if constexpr (kAlone) {
      arch::named_sync<128>(2 + warpgroup);
    } else {
      arch::named_sync<256>(1);
    }
  };
  const ShortStep& first = shared.steps[ring.slot];
  const int group = kAlone ? common.group : 1, first_head = arch::uniform(first.head) + unit * common.group;
  const int kv_head = first_head / common.group;
  const int live_first = arch::uniform(first.sequence.live_first), live_rows = arch::uniform(first.sequence.live_rows);
  const int query_rows = arch::uniform(first.sequence.query_rows), key_rows = arch::uniform(first.sequence.key_rows);
  const Band band = first.sequence.band;
  const int64_t query_start = first.sequence.query_start, key_start = first.sequence.key_start;
  const bool idle = kAlone && unit >= arch::uniform(first.units);
  if (live_rows < query_rows && !idle && (kAlone || warpgroup == 0)) {
    for (int g = 0; g < group; ++g) {
      write_zeros(args.grad_q, query_start, min(live_first, query_rows), first_head + g, common.head_dim);
      write_zeros(args.grad_q, query_start + live_first + live_rows, query_rows - live_first - live_rows, first_head + g,
                  common.head_dim);
    }
  }
  if (live_rows == 0 || idle) {
    if (!idle && (kAlone || warpgroup == 0)) {
      write_zeros(args.grad_k, key_start, key_rows, kv_head, common.head_dim);
      write_zeros(args.grad_v, key_start, key_rows, kv_head, common.value_dim);
    }
    arch::release(shared.empty[ring.slot]);
    ring.advance();
    for (int g = 1; g < group; ++g, ring.advance()) {
      arch::wait(shared.full[ring.slot], ring.parity);
      arch::release(shared.empty[ring.slot]);
    }
    return;
  }
  const int own_row = kAlone ? 0 : 64 * warpgroup;  // of the sequence, first row and key that leave from here
  const Coordinates queries = coordinates(true, 0, query_start, live_first, live_rows, own_row + warp_row, common.query_rows);
  const Coordinates keys = coordinates(true, 0, key_start, 0, key_rows, own_row + warp_row, common.key_rows);
  const int column = tile::accumulator_column(thread), row = tile::accumulator_row(thread);
  const auto& p_tile = shared.p[warpgroup];
  const auto& ds_tile = shared.ds[warpgroup];
  const auto leave = [&](const auto& tile, int at, const CUtensorMap& map, const Coordinates& to, int head, const auto& result) {
    tile::store_accumulators<element, D>(tile.address(), 128, at, thread, result);
    arch::fence_shared_for_async();
    __syncwarp();
    if (first_lane) {
      arch::store_box(map, tile.address() + (at + warp_row) * tile::kPanelRowBytes, 0, to.row, head, to.batch);
      arch::commit_stores();
    }
  };

  float dk[D / 2], dv[D / 2];
  if constexpr (kAlone) {
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dk[i] = dv[i] = 0.0f;
  }
#pragma unroll 1
  for (int g = 0; g < group; ++g) {
    if (g > 0) arch::wait(shared.full[ring.slot], ring.parity);
    const uint32_t slot = ring.slot;
    if constexpr (!kAlone) {
      if (live_rows <= 64 || key_rows <= 64) {  // the copy engine has brought one half alone
        constexpr int kWords = 64 * tile::kPanelRowBytes / 16;
        const auto clear = [&](auto& tile) {
          for (int i = threadIdx.x; i < kWords; i += 256)
            reinterpret_cast<uint4*>(tile.data)[kWords + i] = make_uint4(0, 0, 0, 0);
        };
        if (live_rows <= 64) clear(shared.q[slot]), clear(shared.grad_out[slot]);
        if (key_rows <= 64) clear(shared.k[slot]), clear(shared.v[slot]);
        arch::fence_shared_for_async();
        arch::named_sync<256>(1);
      }
    }
    const tile::Operand q = tile::operand(shared.q[slot].address(), 128, 64 * warpgroup);
    const tile::Operand grad_out = tile::operand(shared.grad_out[slot].address(), 128, 64 * warpgroup);
    const tile::Operand k = tile::operand(shared.k[slot].address(), 128, 64 * unit);
    const tile::Operand v = tile::operand(shared.v[slot].address(), 128, 64 * unit);
    uint32_t ds[L / 4];
    {
      float score[L / 2], dp[L / 2];
      tile::begin();
      tile::multiply_transposed<element, L, D, 128, 128, true>(score, q, k);
      const auto scores_under_way = tile::commit(score);
      tile::multiply_transposed<element, L, D, 128, 128, true>(dp, grad_out, v);
      const auto dp_under_way = tile::commit(dp);
      float lse2[2], grad_lse[2];
      int low[2];
      uint32_t count[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = own_row + row + 8 * half, query = live_first + r, least = max(0, query + band.low);
        lse2[half] = shared.lse2[slot][64 * warpgroup + row + 8 * half];
        grad_lse[half] = shared.grad_lse[slot][64 * warpgroup + row + 8 * half];
        low[half] = column - least;
        count[half] = r < live_rows ? min(key_rows, query + band.high + 1) - least : 0;
      }
      scores_under_way.template wait<1>();
#pragma unroll
      for (int i = 0; i < L / 2; ++i) {
        const int half = (i >> 1) & 1;
        const bool keep = static_cast<uint32_t>(low[half] + 8 * (i / 4) + i % 2) < count[half];
        score[i] = keep ? arch::exp2(fmaf(score[i], common.scale_log2, -lse2[half])) : 0.0f;
      }
      dp_under_way.wait();
      if (first_lane) arch::wait_stores_read();  // what left from here before
      meet();
      const auto put = [&](auto& tiles, const uint32_t(&x)[L / 4]) {
        if constexpr (kAlone) {
          tile::store_operand<64>(tiles[warpgroup].address(), warp_row, thread, x);
        } else {
#pragma unroll
          for (int j = 0; j < 2; ++j) {
            uint32_t part[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) part[i] = x[16 * j + i];
            tile::store_operand<64>(tiles[j].address(), 64 * warpgroup + warp_row, thread, part);
          }
        }
      };
      tile::pack_operand<element>(ds, score);
      put(shared.p, ds);
      float delta[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < L / 2; ++i) delta[(i >> 1) & 1] = fmaf(score[i], dp[i], delta[(i >> 1) & 1]);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        delta[half] += __shfl_xor_sync(0xffffffffu, delta[half], 1);
        delta[half] += __shfl_xor_sync(0xffffffffu, delta[half], 2);
        delta[half] -= grad_lse[half];
      }
#pragma unroll
      for (int i = 0; i < L / 2; ++i) score[i] *= dp[i] - delta[(i >> 1) & 1];
      tile::pack_operand<element>(ds, score);
      put(shared.ds, ds);
    }
    arch::fence_shared_for_async();
    meet();

    float dq[D / 2];
    if constexpr (kAlone) tile::settle(dv, dk);
    tile::settle(ds);
    tile::begin();
    tile::multiply<element, D, L, true>(dq, ds, k);
    const tile::Operand all_q = tile::operand(shared.q[slot].address(), 128, 64 * unit);
    const tile::Operand all_grad_out = tile::operand(shared.grad_out[slot].address(), 128, 64 * unit);
    tile::multiply_shared_transposed<element, D, L, !kAlone>(dv, tile::operand(p_tile.address(), 128), all_grad_out);
    tile::multiply_shared_transposed<element, D, L, !kAlone>(dk, tile::operand(ds_tile.address(), 128), all_q);
    tile::commit(dq, dv, dk, ds).wait();
    arch::release(shared.empty[slot]);
    ring.advance();
    arch::named_sync<128>(2 + warpgroup);  // the products of all its warps have read P and dS of this warpgroup's keys
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dq[i] *= common.scale;
    leave(p_tile, 64, common.grad_q, queries, first_head + g, dq);
  }
#pragma unroll
  for (int i = 0; i < D / 2; ++i) dk[i] *= common.scale;
  leave(ds_tile, 0, common.grad_k, keys, kv_head, dk);
  leave(p_tile, 0, common.grad_v, keys, kv_head, dv);
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) short_gradients(const __grid_constant__ ShortArguments args) {
  auto& shared = block_shared<typename Shape::Shared>();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::slots; ++i) {
      arch::init_barrier(shared.drawn[i], 1);
      arch::init_barrier(shared.full[i], 2);  // loader and statistics
      arch::init_barrier(shared.empty[i], 8);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();
  const int warpgroup = arch::warpgroup_index();
  if (warpgroup == 2) {
    arch::shrink_registers<Shape::registers.producer>();
    if (threadIdx.x < 256 + 32) load_short<Shape>(shared, args);
    if (threadIdx.x >= 256 + 32 && threadIdx.x < 256 + 64) load_short_statistics<Shape>(shared, args);
    return;
  }
  arch::grow_registers<Shape::registers.consumer>();
  for (Ring<Shape::slots> ring;;) {
    arch::wait(shared.full[ring.slot], ring.parity);
    const ShortStep& step = shared.steps[ring.slot];
    if (arch::uniform(step.head) < 0) break;
    if (arch::uniform(step.units) > 0) {
      short_item<Shape, 64>(shared, args, ring, warpgroup);
    } else {
      short_item<Shape, 128>(shared, args, ring, warpgroup);
    }
  }
  arch::wait_stores();
  finish_after_predecessor();
}

}  // namespace deckle::kernels::cuda::attention
