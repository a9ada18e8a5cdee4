// row_statistics is memory bound: 4 Dv bytes read and 8 written per row, 134 MB at D = 128 and 16,384 tokens of 16 heads.
// A block takes a tile of rows of a few heads: finding its sequence (3 us) outweighs one head's rows. For 512 sequences of mean
// 58: one head a block 39 us; four heads, loads of four rows in flight 31; blocks by the work list instead of a search 25. Type
// and threads a row are branches around the loop: inside it, as run-time values, they cost 3 of 40 us at D = 128 and 5 of 21
// there.
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
        const int64_t index = batch * args.lse_batch_stride + head * args.lse_head_stride + token_of(row);
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
        args.lse2[output] = row < s.live_rows ? lse[i] * 1.4426950408889634f : INFINITY;
        args.delta[output] = delta - grad_lse[i];
      }
    }
  }
}

__global__ void __launch_bounds__(256, 3) row_statistics(const __grid_constant__ StatisticsArguments args) {
  const BackwardArguments& common = args.common;
  const int unit = common.statistics_unit;
  arch::launch_dependents();
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x < 2) args.counters[threadIdx.x] = 0;
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

// Rounds scale * sums to grad_q; rows that attend no key get zeros. A block a tile of M rows (of all rows) of one head.
__global__ void __launch_bounds__(256)
    round_query_gradients(const __grid_constant__ BackwardArguments args, Element element, AttentionTensor grad_q) {
  constexpr int D = 128, M = 64;
  SequencePair s;
  int tile;
  if (args.query_offsets == nullptr) {
    const int tiles = (args.query_rows + M - 1) / M;
    tile = blockIdx.x % tiles;
    s = sequence_at(blockIdx.x / tiles, args);
  } else {
    const int index = sequence_of_block(args.query_offsets, args.batch, M, blockIdx.x);
    tile = static_cast<int>(blockIdx.x - first_block(args.query_offsets, index, M));
    s = sequence_at(index, args);
  }
  const int64_t head = blockIdx.y;
  const float* sums = args.sums + (head * args.statistics_rows + statistics_start(s, args)) * D;
  for (int i = threadIdx.x; i < M * (D / 8); i += 256) {
    const int row = tile * M + i / (D / 8), chunk = i % (D / 8);
    if (row >= s.query_rows) break;
    const int live = row - s.live_first;
    uint4 result = {0, 0, 0, 0};
    if (live >= 0 && live < s.live_rows) {
      // Columns 8 chunk.. of a row are held by four threads in turn, two accumulators each.
      const int r = live % M, thread = 32 * (r / 16) + 4 * (r % 8), upper = 2 * ((r / 8) % 2);
      const float* from = sums + int64_t{live / M} * (M * D) + ((chunk / 8) * 8 + chunk % 8) * 512 + thread * 4 + upper;
      const auto pair = [&](int lane) {
        const float2 v = *reinterpret_cast<const float2*>(from + 4 * lane);
        return arch::pack(element, v.x * args.scale, v.y * args.scale);
      };
      result = {pair(0), pair(1), pair(2), pair(3)};
    }
    const int64_t offset = (args.query_offsets == nullptr ? s.index : 0) * grad_q.batch_stride +
                           (s.query_start + row) * grad_q.row_stride + head * grad_q.head_stride + chunk * 8;
    *reinterpret_cast<uint4*>(static_cast<uint16_t*>(grad_q.data) + offset) = result;
  }
}

}  // namespace

const void* row_statistics_kernel() { return reinterpret_cast<const void*>(&row_statistics); }

const void* round_query_gradients_kernel() { return reinterpret_cast<const void*>(&round_query_gradients); }

}  // namespace deckle::kernels::cuda::attention
