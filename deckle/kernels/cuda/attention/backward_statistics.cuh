// The row statistics of the backward (see backward_common.cuh): lse2 and delta = dO . O - dLSE.
// A block takes a tile of rows of a few heads: finding its sequence (3 us) outweighs one head's rows. Bytes per row: 4 Dv read, 8
// written; memory bound: 42 us for 134 MB at D = 128 (ncu). For 512 sequences of mean 58: one head a block 39 us; four heads,
// loads of four rows in flight 31; blocks by the work list instead of a search 25.
#pragma once

#include "deckle/kernels/cuda/attention/backward_common.cuh"

namespace deckle::kernels::cuda::attention {

inline constexpr int kStatisticsHeads = 4;

struct StatisticsArguments {
  BackwardArguments common;
  const void* out;
  const void* grad_out;
  int64_t out_strides[3], grad_out_strides[3];  // batch, row, head
  const float* lse;
  const float* grad_lse;  // null: zero
  int64_t lse_head_stride, lse_batch_stride;
  int value_dim;
  float* lse2;
  float* delta;
  int list_rows;  // ragged: height of the tiles of the list
  int* counters;  // both work counters: set to zero for the kernels that follow
};

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

/// A group of `lanes` threads takes a row, 8 columns a thread.
template <Element element, int lanes>
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

  const int lane = threadIdx.x % lanes;
  const bool ragged = common.query_offsets != nullptr;
  const int64_t batch = ragged ? 0 : s.index;
  const int first_head = blockIdx.y * kStatisticsHeads;
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

}  // namespace deckle::kernels::cuda::attention
