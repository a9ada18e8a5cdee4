// row_statistics is memory bound: 4 Dv bytes read and 8 written per row, 134 MB at D = 128 and 16,384 tokens of 16 heads.
// A block takes a tile of rows of a few heads: finding its sequence (3 us) outweighs one head's rows. For 512 sequences of mean
// 58: one head a block 39 us; four heads, loads of four rows in flight 31; blocks by the work list instead of a search 25. Type
// and threads a row are branches around the loop: inside it, as run-time values, they cost 3 of 40 us at D = 128 and 5 of 21
// there (H200, 2026-11-21, at 824d29e2; the runs were not kept).
#include "deckle/kernels/cuda/attention/backward_statistics.cuh"

#include <type_traits>

namespace deckle::kernels::cuda::attention {
namespace {

template <Element element>
__device__ __forceinline__ float dot(uint4 a, uint4 b) {
  float sum = 0;
  const auto add = [&](uint32_t x, uint32_t y) {
    const float2 u = arch::unpack<element>(x), v = arch::unpack<element>(y);
    sum = fmaf(u.x, v.x, fmaf(u.y, v.y, sum));
  };
  add(a.x, b.x);
  add(a.y, b.y);
  add(a.z, b.z);
  add(a.w, b.w);
  return sum;
}

// The statistics of rows [first_row, end_row) of a sequence, first live row first, and of the heads from `first_head` on, by a
// block of 256. A group of `lanes` threads takes a row, 8 columns a thread.
template <Element element, int lanes>
__device__ __forceinline__ void rows_of_heads(const StatisticsArguments& args, const SequencePair& s, int first_row, int end_row,
                                              int first_head) {
  const BackwardArguments& common = args.common;
  const int lane = threadIdx.x % lanes;
  const int64_t batch = common.query_offsets != nullptr ? 0 : s.index;
  const int height = end_row - first_row;
  const int rows = height * min(kStatisticsHeads, common.heads - first_head);
  const int64_t start = statistics_start(s, common);
  // Loads of several rows first: their latencies overlap.
  constexpr int kBatch = 4, kStep = 256 / lanes;
  const auto token_of = [&](int row) { return s.query_start + s.live_first + row; };
  for (int base = 0; base < rows; base += kBatch * kStep) {
    const int first = base + threadIdx.x / lanes;
    uint4 out[kBatch] = {}, grad_out[kBatch] = {};
    float lse[kBatch] = {}, grad_lse[kBatch] = {};
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int r = first + i * kStep, row = first_row + r % height;
      const int64_t head = first_head + r / height;
      if (r >= rows || row >= s.live_rows) continue;
      if (lane * 8 < args.value_dim) {
        const int64_t a =
            batch * args.out_strides[0] + token_of(row) * args.out_strides[1] + head * args.out_strides[2] + lane * 8;
        const int64_t b = batch * args.grad_out_strides[0] + token_of(row) * args.grad_out_strides[1] +
                          head * args.grad_out_strides[2] + lane * 8;
        out[i] = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(args.out) + a);
        grad_out[i] = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(args.grad_out) + b);
      }
      if (lane == 0) {
        const int64_t index = (batch * common.query_rows + token_of(row)) * common.heads + head;
        lse[i] = args.lse[index];
        if (args.grad_lse != nullptr) grad_lse[i] = args.grad_lse[index];
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int r = first + i * kStep, row = first_row + r % height;
      float delta = dot<element>(out[i], grad_out[i]);
#pragma unroll
      for (int offset = lanes / 2; offset > 0; offset /= 2) delta += __shfl_xor_sync(0xffffffffu, delta, offset);
      if (lane == 0 && r < rows) {
        const int64_t output = (first_head + r / height) * common.statistics_rows + start + row;
        const bool dead = row >= s.live_rows || lse[i] == -INFINITY;  // so by masks of ranges and of bytes
        args.lse2[output] = dead ? INFINITY : lse[i] * args.lse_unit;
        args.delta[output] = dead ? 0.0f : delta - grad_lse[i];
      }
    }
  }
}

__global__ void __launch_bounds__(256, 3) row_statistics(const __grid_constant__ StatisticsArguments args) {
  const BackwardArguments& common = args.common;
  const int unit = common.statistics_unit;
  arch::launch_dependents();
  if (blockIdx.x == 0 && blockIdx.y == 0) {
    for (int i = threadIdx.x; i < args.counter_count; i += 256) args.counters[i] = 0;
  }
  SequencePair s;
  int first_row, end_row;  // live rows of this block, and the room behind the last one
  const auto up = [&](int row) { return (row + unit - 1) / unit * unit; };
  if (common.query_offsets == nullptr) {
    const int tiles = (common.query_rows + unit - 1) / unit;
    s = sequence_at(blockIdx.x / tiles, common);
    first_row = static_cast<int>(blockIdx.x % tiles) * unit;
    end_row = min(first_row + unit, up(s.live_rows));
  } else {
    if (blockIdx.x >= common.list->count) return;
    const WorkItem item = common.items[blockIdx.x];
    s = sequence_at(item.sequence, common);
    const int row = item.tile * args.list_rows - s.live_first;
    first_row = max(0, row);
    end_row = row + args.list_rows >= s.live_rows ? up(s.live_rows) : row + args.list_rows;
    if (first_row >= s.live_rows) return;
  }
  if (first_row >= end_row) return;
  if (common.turns != nullptr) {  // of the tiles that begin among these rows
    const int first_tile = (first_row + unit - 1) / unit, count = (end_row - 1) / unit + 1 - first_tile;
    for (int i = threadIdx.x; i < 2 * count * min(kStatisticsHeads, common.heads - kStatisticsHeads * (int)blockIdx.y);
         i += 256) {
      const int64_t at = (kStatisticsHeads * blockIdx.y + i / (2 * count)) * common.statistics_rows + statistics_start(s, common);
      common.turns[kTurnStride * ((at / unit + first_tile) * 2 + i % (2 * count))] = 0;
    }
  }

  const int head = blockIdx.y * kStatisticsHeads;
  const auto take = [&](auto lanes) {
    if (args.element == Element::bf16) {
      rows_of_heads<Element::bf16, decltype(lanes)::value>(args, s, first_row, end_row, head);
    } else {
      rows_of_heads<Element::f16, decltype(lanes)::value>(args, s, first_row, end_row, head);
    }
  };
  if (args.value_dim <= 64) {
    take(std::integral_constant<int, 8>{});
  } else if (args.value_dim <= 128) {
    take(std::integral_constant<int, 16>{});
  } else {
    take(std::integral_constant<int, 32>{});
  }
}

// Rounds scale * query_sums to grad_q; rows that attend no key get zeros. A block a tile of M live rows of one head, and as many
// of the rows that are not live. Starts where blocks of all_gradients run out of work, and takes each tile as soon as it is
// complete.
constexpr int kMostRoundRows = 128;
template <int D>
constexpr int kPitch = D / 2 + 4;  // words: neighbouring rows in other banks

template <int D>
__device__ __forceinline__ void round_tile(const BackwardArguments& args, Element element, const AttentionTensor& grad_q,
                                           uint32_t* memory) {
  auto& packed = *reinterpret_cast<uint32_t(*)[kMostRoundRows][kPitch<D>]>(memory);
  const int M = args.statistics_unit;
  SequencePair s;
  int tile;
  int64_t head;
  if (args.query_offsets == nullptr) {  // as all_gradients does: one head of one sequence after the other
    const int tiles = (args.query_rows + M - 1) / M;
    tile = blockIdx.x % tiles;
    head = blockIdx.x / tiles % args.heads;
    s = sequence_at(blockIdx.x / tiles / args.heads, args);
  } else {
    const int block = blockIdx.x / args.heads;
    head = blockIdx.x % args.heads;
    const int index = sequence_of_block(args.query_offsets, args.batch, M, block);
    tile = static_cast<int>(block - first_block(args.query_offsets, index, M));
    s = sequence_at(index, args);
    if (tile < 0 || !args.list->valid || is_short(s, args.short_rows)) return;
  }
  const auto row_of = [&](int row) {
    return reinterpret_cast<uint4*>(static_cast<uint16_t*>(grad_q.data) +
                                    (args.query_offsets == nullptr ? s.index : 0) * grad_q.batch_stride +
                                    (s.query_start + row) * grad_q.row_stride + head * grad_q.head_stride);
  };
  const int live = min(M, s.live_rows - tile * M), dead = min(M, s.query_rows - s.live_rows - tile * M);
  for (int i = threadIdx.x; i < dead * (D / 8); i += 256) {
    const int row = tile * M + i / (D / 8);
    if (i % (D / 8) * 8 >= args.head_dim) continue;
    row_of(row < s.live_first ? row : row + s.live_rows)[i % (D / 8)] = make_uint4(0, 0, 0, 0);
  }
  if (live <= 0) return;
  const int64_t sums_row = head * args.statistics_rows + statistics_start(s, args) + int64_t{tile} * M;
  constexpr int kKeys = 128;  // of a tile of all_gradients
  const TileWalks& walks = args.walks;
  const int all = walks.visits == nullptr
                      ? walk_of_queries(s, s.live_first + tile * M, M, kKeys).count
                      : walks.visitors[walks.walked(args.query_offsets != nullptr, s.index, s.query_start, tile)];
  if (all == 0) {  // a mask leaves nothing
    for (int i = threadIdx.x; i < live * (D / 8); i += 256) {
      if (i % (D / 8) * 8 < args.head_dim) row_of(s.live_first + tile * M + i / (D / 8))[i % (D / 8)] = make_uint4(0, 0, 0, 0);
    }
    return;
  }
  if (threadIdx.x < 2) {
    while (arch::load_acquire(args.turns + kTurnStride * (sums_row / M * 2 + threadIdx.x)) < all) __nanosleep(500);
  }
  __syncthreads();
  // Quad i of thread t of warpgroup w: dQ^T of columns d, d + 8 and queries q, q + 1. Threads 4 apart hold neighbouring columns:
  // they trade, so that each has pairs of columns of one query.
  const auto* sums = reinterpret_cast<const float4*>(args.query_sums + sums_row * D);
  const int queries = D == 128 ? M : M / 2;
#pragma unroll 4
  for (int i = threadIdx.x; i < M * (D / 4); i += 256) {
    const float4 v = __ldcg(sums + i);
    const int thread = i % 128, block = i / 128 % (queries / 8), warpgroup = i / (16 * queries), lane = thread % 32;
    const int d = (D == 128 ? 64 * warpgroup : 0) + 16 * (thread / 32) + lane / 4;
    const int q = (D == 128 ? 0 : queries * warpgroup) + 8 * block + 2 * (lane % 4);
    const bool odd = d % 2 != 0;
    const float near = __shfl_xor_sync(~0u, odd ? v.x : v.y, 4), far = __shfl_xor_sync(~0u, odd ? v.z : v.w, 4);
    const auto put = [&](int column, float a, float b) {
      packed[q + odd][column / 2] = arch::pack(element, a * args.scale, b * args.scale);
    };
    if (odd) {
      put(d - 1, near, v.y);
      put(d + 7, far, v.w);
    } else {
      put(d, v.x, near);
      put(d + 8, v.z, far);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < live * (D / 8); i += 256) {
    const int row = i / (D / 8), chunk = i % (D / 8);
    if (chunk * 8 < args.head_dim)
      row_of(s.live_first + tile * M + row)[chunk] = *reinterpret_cast<const uint4*>(&packed[row][4 * chunk]);
  }
}

__global__ void __launch_bounds__(256) round_query_gradients(const __grid_constant__ BackwardArguments args, Element element,
                                                             AttentionTensor grad_q, int compiled_dim) {
  __shared__ __align__(16) uint32_t memory[kMostRoundRows * kPitch<128>];
  if (compiled_dim == 64) {
    round_tile<64>(args, element, grad_q, memory);
  } else {
    round_tile<128>(args, element, grad_q, memory);
  }
  finish_after_predecessor();
}

// Adds up what the parts of a kv head have left, in their order.
__global__ void __launch_bounds__(256)
    round_key_gradients(const __grid_constant__ BackwardArguments args, Element element, int columns) {
  const bool of_values = blockIdx.z == 1, ragged = args.key_offsets != nullptr;
  const int64_t piece = int64_t{blockIdx.x} * 256 + threadIdx.x, row = piece / (columns / 4);
  if (row >= (ragged ? min(args.key_offsets[args.batch], args.key_sums_rows) : args.key_sums_rows)) return;
  const int column = 4 * static_cast<int>(piece % (columns / 4)), kv_heads = args.heads / args.group, head = blockIdx.y;
  if (column >= (of_values ? args.value_dim : args.head_dim)) return;
  const int64_t part = args.key_sums_rows * columns;
  const float* from = args.key_sums + ((of_values ? kv_heads : 0) + head) * int64_t{args.parts} * part + row * columns + column;
  float4 sum = {0, 0, 0, 0};
  for (int i = 0; i < args.parts; ++i) {
    const float4 v = *reinterpret_cast<const float4*>(from + i * part);
    sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
  }
  const float scale = of_values ? 1.0f : args.scale;
  const AttentionTensor& to = of_values ? args.grad_v_rows : args.grad_k_rows;
  const int64_t batch = ragged ? 0 : row / args.key_rows;
  *reinterpret_cast<uint2*>(static_cast<uint16_t*>(to.data) + batch * to.batch_stride +
                            (row - batch * args.key_rows) * to.row_stride + head * to.head_stride + column) = {
      arch::pack(element, scale * sum.x, scale * sum.y), arch::pack(element, scale * sum.z, scale * sum.w)};
}

}  // namespace

const void* row_statistics_kernel() { return reinterpret_cast<const void*>(&row_statistics); }

const void* round_query_gradients_kernel() { return reinterpret_cast<const void*>(&round_query_gradients); }

const void* round_key_gradients_kernel() { return reinterpret_cast<const void*>(&round_key_gradients); }

}  // namespace deckle::kernels::cuda::attention
