#pragma once

// Reductions whose rows lie close to each other: neighbouring threads take neighbouring rows.
//
//   rung                                 64 M elements over dim 0 of [65536, 1024], float32 at 4.3 TB/s (floor 0.0625 ms)
//   a column a thread, 4 B a load        0.237 ms: 128 B of a row at once
//   16 B a load, four rows in flight     0.068 ms: 512 B of a row at once, 64 B a thread in flight
// benchmarks/results/gpu_ops.json, H200, of 7c1f602 (2026-11-22) and 78c31097 (2026-11-24).
#include <algorithm>
#include <bit>

#include "deckle/kernels/cuda/reduce/behind.cuh"
#include "deckle/kernels/cuda/reduce/problem.cuh"

namespace deckle::kernels::cuda::reduce {

/// Neighbouring rows by neighbouring threads: kWidth rows each, as one vector of at most 16 bytes a load where that is possible,
/// and kColumnDepth elements of a row at once in a block; four loads in flight each.
constexpr int kColumnThreads = 32, kColumnDepth = 8, kColumnLoads = 4;

template <class R, typename T, class Columns>
__global__ void __launch_bounds__(256)
    columns_kernel(const __grid_constant__ Problem problem, R reduction, typename R::Acc* parts) {
  using Acc = typename R::Acc;
  constexpr int kWidth = Columns::kWidth;
  // Of so many columns a thread at once: warp k merges those numbered k.
  constexpr int kTogether = std::clamp<int>(static_cast<int>(std::bit_floor(64 / sizeof(Acc))), 1, kWidth);
  __shared__ alignas(alignof(Acc)) char memory[kTogether * 256 * sizeof(Acc)];
  auto* const shared = reinterpret_cast<Acc*>(memory);
  if (problem.parts > 1) arch::launch_dependents();
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kColumnThreads + threadIdx.x) * kWidth, part = blockIdx.y;
  const bool inside = row < problem.rows;
  Acc acc[kWidth];
#pragma unroll
  for (int k = 0; k < kWidth; ++k) acc[k] = reduction.start();
  if (inside) {
    const int64_t start = problem.kept.offset(row), begin = part * problem.part_length,
                  end = min(begin + problem.part_length, problem.length);
    in_batches<kColumnLoads>(
        begin + threadIdx.y, end, kColumnDepth,
        [&](int64_t i) {
          Loaded<typename Columns::V, kWidth> loaded;
          Columns::load(problem, start + problem.reduced.offset(i), loaded.x);
          return loaded;
        },
        [&](const auto& loaded, int64_t i) {
          constexpr int kCount = std::extent_v<std::remove_reference_t<decltype(loaded)>>;
          if constexpr (Columns::kHalves && TakesFew<R>) {
            // One question for all columns: of each of its own costs two fifths of the kernel's rate.
            float few[kWidth];
            bool held = true;
#pragma unroll
            for (int k = 0; k < kWidth; ++k) {
              few[k] = few_of<kCount>(reduction, [&](int u) { return loaded[u].x[k]; });
              held = held && reduction.holds(few[k]);
            }
            if (held) {
#pragma unroll
              for (int k = 0; k < kWidth; ++k) reduction.add(acc[k], few[k], i);
              return;
            }
          }
#pragma unroll
          for (int k = 0; k < kWidth; ++k) {
#pragma unroll
            for (int u = 0; u < kCount; ++u) reduction.add(acc[k], loaded[u].x[k], i + u * kColumnDepth);
          }
        });
  }
#pragma unroll
  for (int first = 0; first < kWidth; first += kTogether) {
    if (first > 0) __syncthreads();
#pragma unroll
    for (int k = 0; k < kTogether; ++k) shared[(k * kColumnDepth + threadIdx.y) * kColumnThreads + threadIdx.x] = acc[first + k];
    __syncthreads();
    if (threadIdx.y >= kTogether || !inside) continue;
    const Acc* const of = shared + threadIdx.y * kColumnDepth * kColumnThreads + threadIdx.x;
    const int64_t which = row + first + threadIdx.y;
    Acc all = of[0];
#pragma unroll
    for (int y = 1; y < kColumnDepth; ++y) all = reduction.merge(all, of[y * kColumnThreads]);
    if (problem.parts > 1)
      parts[which * problem.parts + part] = all;
    else
      reduction.finish(all, problem.length, problem.outputs, which);
  }
}

/// What a thread of columns_kernel loads at once: one element of any dtype, ...
template <typename T>
struct OneColumn {
  using V = T;
  static constexpr int kWidth = 1;
  static constexpr bool kHalves = false;
  __device__ static void load(const Problem& problem, int64_t at, T (&x)[1]) {
    x[0] = pointwise::load<T>(problem.data, problem.dtype, at);
  }
};
/// ... or a vector of 16 bytes.
template <typename E>
struct Columns {
  using V = std::conditional_t<sizeof(E) == 8, double, float>;
  static constexpr int kWidth = 16 / sizeof(E);
  static constexpr bool kHalves = sizeof(E) == 2;
  __device__ static void load(const Problem& problem, int64_t at, V (&x)[kWidth]) {
    const E* const from = static_cast<const E*>(problem.data) + at;
    if constexpr (sizeof(E) == 2) {
      pointwise::decode<E>(*reinterpret_cast<const uint4*>(from), x);
    } else if constexpr (sizeof(E) == 4) {
      const float4 raw = *reinterpret_cast<const float4*>(from);
      x[0] = raw.x, x[1] = raw.y, x[2] = raw.z, x[3] = raw.w;
    } else {
      const double2 raw = *reinterpret_cast<const double2*>(from);
      x[0] = raw.x, x[1] = raw.y;
    }
  }
};

}  // namespace deckle::kernels::cuda::reduce
