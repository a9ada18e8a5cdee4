// Row statistics of the backward and of its tangent, and the gradient of the sinks, which needs nothing else.
//
//   Delta = dO . O - dlse     tDelta = tdO . O + dO . tO - tdlse     of rows that saw something; 0 otherwise
//   dsink = - sum p Delta     tdsink = - sum p [(tsink - tlse) Delta + tDelta]       p = exp(sink - lse)
#pragma once

#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/general_attention/gradient.cuh"
#include "deckle/kernels/cuda/general_attention/kernels.h"

namespace deckle::kernels::cuda::general {

/// What the statistics come from: out and its tangent, of the dtype `dtype`.
struct Moved {
  AttentionRows out, tangent;
  DType dtype;
};

// Grid (row tasks, heads): a warp for a row.
template <typename T, bool second>
__global__ void __launch_bounds__(kThreads, 1)
    row_statistics(const Call call, const Cotangents g, const Moved y, T* delta, T* delta_tangent) {
  if (unwanted(call)) return;
  const AttentionProblem& p = call.p;
  const TaskBlock own(call.row_tasks, call.row_task_count);
  const Task task = own.task;
  const Head head(p, task.sequence, own.rest);
  const int lane = threadIdx.x % 32;
  for (int row = task.first + threadIdx.x / 32; row < tile_end(task.first, head.queries); row += kThreads / 32) {
    const int64_t at = head.statistic(p, row), packed = head.first_row + row;
    const auto value = [&](const AttentionRows& rows, DType dtype, int column) {
      return rows.data == nullptr ? T(0)
                                  : load<T>(rows.data, packed * rows.row_stride + head.head * rows.head_stride + column, dtype);
    };
    T sum = 0, moved = 0;
    const bool live = static_cast<const T*>(g.lse)[at] != -infinity<T>();
    for (int column = lane; live && column < p.value_dim; column += 32) {
      const T dout = value(g.dy.out, p.dtype, column), out = value(y.out, y.dtype, column);
      sum += dout * out;
      if constexpr (second) moved += value(g.tdy.out, p.dtype, column) * out + dout * value(y.tangent, y.dtype, column);
    }
#pragma unroll
    for (int other = 16; other > 0; other /= 2) {
      sum += __shfl_xor_sync(~0u, sum, other);
      moved += __shfl_xor_sync(~0u, moved, other);
    }
    if (lane != 0) continue;
    const auto lse = [&](const void* of) { return live && of != nullptr ? static_cast<const T*>(of)[at] : T(0); };
    delta[at] = sum - lse(g.dy.lse);
    if constexpr (second) delta_tangent[at] = moved - lse(g.tdy.lse);
  }
}

/// The sum of a number of each thread, in a fixed order; of thread 0 alone. `memory`: kThreads numbers, shared.
__device__ inline double block_sum(double value, double* memory) {
  __syncthreads();
  memory[threadIdx.x] = value;
  __syncthreads();
  double sum = 0;
  for (int n = 0; threadIdx.x == 0 && n < kThreads; ++n) sum += memory[n];
  return sum;
}

// A block a head.
template <typename T, bool second>
__global__ void __launch_bounds__(kThreads, 1) sink_gradient(const Call call, const Cotangents g, T* result) {
  __shared__ double memory[kThreads];
  const AttentionProblem& p = call.p;
  const int h = static_cast<int>(blockIdx.x);
  const double sink = static_cast<const T*>(g.x.sinks)[h], moves = of_head<T>(g.t.sinks, h, T(0));
  double sum = 0;
  for (int64_t n = threadIdx.x / kTile; n < call.row_task_count; n += kThreads / kTile) {
    const Head head(p, call.row_tasks[n].sequence, h);
    const int row = call.row_tasks[n].first + threadIdx.x % kTile;
    if (row >= head.queries) continue;
    const int64_t at = head.statistic(p, row);
    const auto read = [&](const void* of) { return static_cast<double>(static_cast<const T*>(of)[at]); };
    const double lse = read(g.lse);
    if (lse == -infinity<double>()) continue;
    const double share = exp(sink - lse);
    if (share == 0) continue;
    double term = read(g.delta);
    if constexpr (second) term = (moves - read(g.lse_tangent)) * term + read(g.delta_tangent);
    sum -= share * term;
  }
  sum = block_sum(sum, memory);
  if (threadIdx.x == 0) result[h] = static_cast<T>(sum);
}

}  // namespace deckle::kernels::cuda::general
