// The whole backward of the short sequences of a ragged batch: at most 64 query rows and 64 keys, so scores are one tile. One
// thread block of one warpgroup per (sequence, kv head), several blocks an SM, everything loaded and stored once:
//
//   S = Q K^T    P = 2^(scale log2e S - lse2)    dP = dO V^T    delta = rowsum(P dP) - dLSE    dS = P (dP - delta)
//   dQ = scale dS K    dV = P^T dO    dK = scale dS^T Q
//
// 5 products instead of 7, no statistics kernel, and O is not read: one tile holds each row of P dP. Bytes per row: 2 (4 D + 4
// Dv) less the padding that is never loaded; memory and latency bound. Scores are not transposed here, so that row sums stay in a
// quad of lanes; P and dS go through shared memory to become transposed operands.
//
// Instances: D = 64. 512 sequences of mean 58, 12 heads: 53 us for the 369 short ones (ncu), and the whole backward fell from
// 0.61 to 0.41 ms. Memory at 42 % of its bandwidth, tensor pipe 25 %: latency, three blocks an SM. Next: the same for up to 128
// rows with two warpgroups.
#pragma once

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"

namespace deckle::kernels::cuda::attention {

template <Element element_, int D_, int blocks_per_sm_>
struct ShortGradients {
  static constexpr Element element = element_;
  static constexpr int D = D_;
  static constexpr int blocks_per_sm = blocks_per_sm_;
  static constexpr int threads = 128;

  struct Shared {
    tile::SharedTile<kShortRows, D> q, k, v, grad_out;
    tile::SharedTile<kShortRows, kShortRows> p, ds;
    arch::Barrier loaded;
  };
  static constexpr int shared_bytes = sizeof(Shared);
};

struct ShortArguments {
  BackwardArguments common;  // maps: boxes of 64 rows to load, of 16 rows to store
  const float* lse;
  const float* grad_lse;                   // null: zero
  AttentionTensor grad_q, grad_k, grad_v;  // for rows without a partner, which are written apart
  int first_sequence;
};

/// Zeroes `rows` rows from `first` on; a whole block.
__device__ __forceinline__ void write_zeros(const AttentionTensor& tensor, int64_t first, int rows, int head, int columns) {
  const int chunks = columns / 8;
  for (int i = threadIdx.x; i < rows * chunks; i += blockDim.x) {
    const int64_t offset = (first + i / chunks) * tensor.row_stride + head * tensor.head_stride + i % chunks * 8;
    *reinterpret_cast<uint4*>(static_cast<uint16_t*>(tensor.data) + offset) = make_uint4(0, 0, 0, 0);
  }
}

template <class Shape>
__device__ __forceinline__ void short_sequence(const ShortArguments& args) {
  constexpr int D = Shape::D, L = kShortRows;
  constexpr Element element = Shape::element;
  auto& shared = block_shared<typename Shape::Shared>();
  const BackwardArguments& common = args.common;
  const SequencePair s = sequence_at(args.first_sequence + blockIdx.y, common);
  if (!is_short(s)) return;
  const int kv_head = blockIdx.x;
  const int thread = threadIdx.x;
  const Coordinates queries = coordinates(true, s.index, s.query_start, s.live_first, s.live_rows, 0, common.query_rows);
  const Coordinates keys = coordinates(true, s.index, s.key_start, 0, s.key_rows, 0, common.key_rows);
  const auto load_query_side = [&](int head) {
    tile::load_tile(shared.q, common.q, shared.loaded, queries.row, head, queries.batch, arch::CacheHint::evict_first);
    tile::load_tile(shared.grad_out, common.grad_out, shared.loaded, queries.row, head, queries.batch,
                    arch::CacheHint::evict_first);
  };
  for (int head = kv_head * common.group; head < (kv_head + 1) * common.group; ++head) {
    write_zeros(args.grad_q, s.query_start, min(s.live_first, s.query_rows), head, common.head_dim);
    write_zeros(args.grad_q, s.query_start + s.live_first + s.live_rows, s.query_rows - s.live_first - s.live_rows, head,
                common.head_dim);
  }
  if (s.live_rows == 0) {  // a copy that lies outside its map altogether faults
    write_zeros(args.grad_k, s.key_start, s.key_rows, kv_head, common.head_dim);
    write_zeros(args.grad_v, s.key_start, s.key_rows, kv_head, common.value_dim);
    return;
  }
  if (thread == 0) {
    arch::init_barrier(shared.loaded, 1);
    arch::fence_barrier_init();
    arch::expect_bytes(shared.loaded, sizeof(shared.q) + sizeof(shared.k) + sizeof(shared.v) + sizeof(shared.grad_out));
    load_query_side(kv_head * common.group);
    tile::load_tile(shared.k, common.k, shared.loaded, keys.row, kv_head, keys.batch, arch::CacheHint::evict_first);
    tile::load_tile(shared.v, common.v, shared.loaded, keys.row, kv_head, keys.batch, arch::CacheHint::evict_first);
  }

  const int column = tile::accumulator_column(thread), row = tile::accumulator_row(thread);
  const uint32_t q = tile::operand(shared.q.address(), L).low, k = tile::operand(shared.k.address(), L).low;
  const uint32_t v = tile::operand(shared.v.address(), L).low, grad_out = tile::operand(shared.grad_out.address(), L).low;
  const uint32_t p_tile = tile::operand(shared.p.address(), L).low, ds_tile = tile::operand(shared.ds.address(), L).low;
  const int warp_row = 16 * (thread >> 5);
  const auto store = [&](const auto& tile, const CUtensorMap& map, const Coordinates& at, int head) {
#pragma unroll
    for (int panel = 0; panel < tile::panels(D); ++panel) {
      arch::store_box(map, tile.address() + panel * tile.panel_bytes + warp_row * tile::kPanelRowBytes, panel * 64,
                      at.row + warp_row, head, at.batch);
    }
  };

  float dk[D / 2], dv[D / 2];
#pragma unroll
  for (int i = 0; i < D / 2; ++i) dk[i] = dv[i] = 0.0f;
  __syncthreads();
  for (int g = 0; g < common.group; ++g) {
    const int head = kv_head * common.group + g;
    if (g > 0 && thread == 0) {
      arch::wait_stores_read();
      arch::expect_bytes(shared.loaded, sizeof(shared.q) + sizeof(shared.grad_out));
      load_query_side(head);
    }
    // Statistics of this thread's two rows; a row that does not exist has P = 0.
    float lse2[2], grad_lse[2];
    int low[2];
    uint32_t count[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half, query = s.live_first + r;
      const bool exists = r < s.live_rows;
      const int64_t index = (s.query_start + query) * common.heads + head;
      lse2[half] = exists ? args.lse[index] * 1.4426950408889634f : INFINITY;
      grad_lse[half] = exists && args.grad_lse != nullptr ? args.grad_lse[index] : 0.0f;
      low[half] = column - max(0, query + s.band.low);
      count[half] = exists ? min(s.key_rows, query + s.band.high + 1) - max(0, query + s.band.low) : 0;
    }
    arch::wait(shared.loaded, g & 1);

    uint32_t ds[L / 4];
    {
      float score[L / 2], dp[L / 2];
      arch::wgmma_fence();
      tile::multiply_transposed<element, L, D, L, L, true>(score, {q}, {k});
      arch::wgmma_commit();
      tile::multiply_transposed<element, L, D, L, L, true>(dp, {grad_out}, {v});
      arch::wgmma_commit();
      arch::wgmma_wait<1>();
      arch::pin(score);
#pragma unroll
      for (int i = 0; i < L / 2; ++i) {
        const int half = (i >> 1) & 1;
        const bool keep = static_cast<uint32_t>(low[half] + 8 * (i / 4) + i % 2) < count[half];
        score[i] = keep ? arch::exp2(fmaf(score[i], common.scale_log2, -lse2[half])) : 0.0f;
      }
      const uint32_t target = (warp_row + (thread & 15)) * tile::kPanelRowBytes;
      const auto store_packed = [&](uint32_t tile, const uint32_t(&x)[L / 4]) {
#pragma unroll
        for (int block = 0; block < L / 16; ++block) {
          const uint32_t chunk = (2 * block + ((thread >> 4) & 1)) ^ (thread & 7);
          arch::store_matrices(tile + target + (chunk << 4), x[4 * block], x[4 * block + 1], x[4 * block + 2], x[4 * block + 3]);
        }
      };
      tile::pack_operand<element>(ds, score);
      store_packed(shared.p.address(), ds);
      arch::wgmma_wait<0>();
      arch::pin(dp);
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
      store_packed(shared.ds.address(), ds);
    }
    arch::fence_shared_for_async();
    __syncthreads();

    float dq[D / 2];
    arch::pin(dv);
    arch::pin(dk);
    arch::pin(ds);
    arch::wgmma_fence();
    tile::multiply<element, D, L, true>(dq, ds, {k});
    tile::multiply_shared_transposed<element, D, L, false>(dv, {p_tile}, {grad_out});
    tile::multiply_shared_transposed<element, D, L, false>(dk, {ds_tile}, {q});
    arch::wgmma_commit();
    arch::wgmma_wait<0>();
    arch::pin(dq);
    arch::pin(dv);
    arch::pin(dk);
    arch::pin(ds);
    __syncthreads();  // the products of all warps have read q
#pragma unroll
    for (int i = 0; i < D / 2; ++i) dq[i] *= common.scale;
    tile::store_accumulators<element, D>(shared.q.address(), L, 0, thread, dq);
    arch::fence_shared_for_async();
    if (g + 1 < common.group) {
      __syncthreads();  // one thread stores all rows and then loads the next head over them
      if (thread == 0) {
#pragma unroll
        for (int panel = 0; panel < tile::panels(D); ++panel) {
          for (int r = 0; r < L; r += 16) {
            arch::store_box(common.grad_q, shared.q.address() + panel * shared.q.panel_bytes + r * tile::kPanelRowBytes,
                            panel * 64, queries.row + r, head, queries.batch);
          }
        }
        arch::commit_stores();
      }
    } else {
      __syncwarp();
      if ((thread & 31) == 0) store(shared.q, common.grad_q, queries, head);
    }
  }

#pragma unroll
  for (int i = 0; i < D / 2; ++i) dk[i] *= common.scale;
  tile::store_accumulators<element, D>(shared.k.address(), L, 0, thread, dk);
  tile::store_accumulators<element, D>(shared.v.address(), L, 0, thread, dv);
  arch::fence_shared_for_async();
  __syncwarp();
  if ((thread & 31) == 0) {
    store(shared.k, common.grad_k, keys, kv_head);
    store(shared.v, common.grad_v, keys, kv_head);
    arch::commit_stores();
    arch::wait_stores_read();
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_sm)
    short_gradients(const __grid_constant__ ShortArguments args) {
  short_sequence<Shape>(args);
  finish_after_predecessor();
}

}  // namespace deckle::kernels::cuda::attention
