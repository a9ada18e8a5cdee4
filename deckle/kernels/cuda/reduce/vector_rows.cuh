#pragma once

// Rows of float32, bfloat16 or float16 that lie one after another, for reductions that take them as vectors,
//   R::vectors<E>(acc, raw)   takes the elements of a few loads of 16 bytes along
// Where rows are short a thread has four to eight loads, and what else it does for a row counts: there is no division of 64 bits,
// and lanes merge by shuffles.
//
//   rung                 64 M elements over dim 1 of [65536, 1024], bfloat16 (floor 0.031 ms at 4.3 TB/s)
//   rows_kernel          sum 0.057 ms, amax 0.079 ms
//   here                 sum 0.035 ms, amax 0.034 ms; float32: 0.064 ms both (floor 0.062)
// benchmarks/results/gpu_ops.json, H200, 2026-11-23, of b1513cd5 and be731eb6.
#include "deckle/kernels/cuda/reduce/behind.cuh"
#include "deckle/kernels/cuda/reduce/problem.cuh"

namespace deckle::kernels::cuda::reduce {

template <class R>
concept TakesVectors = std::is_same_v<typename R::Acc, double> &&
    requires(const R& reduction, typename R::Acc& acc, const uint4 (&raw)[2]) {
  reduction.template vectors<float>(acc, raw);
};

/// kThreads threads a row or a part of one, of fewer than 2^31 elements.
template <class R, typename E, int kThreads>
__global__ void __launch_bounds__(256)
    vector_rows_kernel(const __grid_constant__ Problem problem, R reduction, typename R::Acc* parts) {
  using Acc = typename R::Acc;
  constexpr int kWidth = 16 / sizeof(E), kTogether = kThreads == 32 ? 32 / kWidth : 4;  // 64 or 128 bytes
  if (problem.parts > 1) arch::launch_dependents();
  const auto unit = blockIdx.x * (256 / kThreads) + threadIdx.x / kThreads, count = static_cast<unsigned>(problem.parts);
  const unsigned row = count == 1 ? unit : unit / count;
  const bool inside = row < problem.rows;
  const int lane = static_cast<int>(threadIdx.x) % kThreads;
  Acc acc = reduction.start();
  if (inside) {
    const int64_t begin = (unit - row * count) * problem.part_length;
    const auto length = static_cast<int>(min(problem.part_length, problem.length - begin));
    const E* const data = static_cast<const E*>(problem.data) + problem.kept.offset(row) + begin;
    take_loads<kTogether>(
        lane, length / kWidth, kThreads, [&](int i) { return reinterpret_cast<const uint4*>(data)[i]; },
        [&](const auto& raw) { reduction.template vectors<E>(acc, raw); });
    for (int i = length / kWidth * kWidth + lane; i < length; i += kThreads)
      reduction.add(acc, static_cast<double>(static_cast<float>(data[i])), begin + i);
  }
  if constexpr (kThreads == 32) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) acc = reduction.merge(acc, __shfl_down_sync(~0u, acc, half));
  } else {
    __shared__ Acc shared[256];
    acc = merge_threads<R, kThreads>(reduction, acc, shared);
  }
  if (lane != 0 || !inside) return;
  if (count > 1)
    parts[unit] = acc;
  else
    reduction.finish(acc, problem.length, problem.outputs, row);
}

}  // namespace deckle::kernels::cuda::reduce
