#pragma once

// The backward of layer_norm and rms_norm with a warp a row, of which each lane holds vectors of 16 bytes; with `carried`, what
// came for x besides is added to dx, and dx summed over rows, too.                          x, g, carried: [rows, n]; w: [n]
//
//   rung                                        [65536, 1024] bfloat16, of layer_norm | of rms_norm
//   a block walks over rows, one in flight      0.151 | 0.121 ms: see backward.cu
//   a warp walks over a run of rows, and        0.123 | 0.115 ms, 3.5 TB/s: 8 warps of an SM have some 96 KB in flight, and
//   the next ones come into shared memory       no warp waits for another but at the end of its run
// benchmarks/results/gpu_ops.json, H200, 2026-11-24, of 63bf1b5e and 78c31097.
// A lane reads from shared memory what it has copied there itself, so copies need no barrier.
// Sums over rows: of a run in float, of the warps of a block in double, parts of blocks, whose number the shape decides, merged
// in order by the caller.
#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "deckle/kernels/cuda/arch/barrier.cuh"
#include "deckle/kernels/cuda/arch/mma.cuh"
#include "deckle/kernels/cuda/norm/statistics.cuh"

namespace deckle::kernels::cuda::norm {

/// Calls launch(element tag, items tag) if a warp holds rows of n elements of this dtype: halves up to 1024, floats up to 512.
template <typename Launch>
bool for_rows_of_warps(DType dtype, int64_t n, const Launch& launch) {
  const auto with_items = [&]<typename E>(TypeTag<E> element) {
    constexpr int kWidth = 16 / sizeof(E);
    if (n <= 32 * kWidth) return launch(element, std::integral_constant<int, kWidth>()), true;
    if (n <= 256) return launch(element, std::integral_constant<int, 8>()), true;
    if (n <= 512) return launch(element, std::integral_constant<int, 16>()), true;
    if constexpr (sizeof(E) == 2) {  // three sums a column, and a row of floats, are more than there are registers
      if (n <= 768) return launch(element, std::integral_constant<int, 24>()), true;
      if (n <= 1024) return launch(element, std::integral_constant<int, 32>()), true;
    }
    return false;
  };
  if (dtype == DType::bfloat16) return with_items(TypeTag<__nv_bfloat16>());
  if (dtype == DType::float16) return with_items(TypeTag<__half>());
  if (dtype == DType::float32) return with_items(TypeTag<float>());
  return false;
}

/// The rows of a warp, one after another, and the blocks that so many rows take.
struct Runs {
  static constexpr int kWarps = 4;  // of a block

  int64_t each, blocks;

  /// As many blocks as reside at once on a large GPU, while a run is short enough for sums in float.
  explicit Runs(int64_t rows)
      : each(std::clamp<int64_t>((rows + 264 * kWarps - 1) / (264 * kWarps), 1, 32)),
        blocks((rows + each * kWarps - 1) / (each * kWarps)) {}
};

/// A lane's vectors of the rows that are on their way, in shared memory.
template <typename E, int kItems, bool kCarried>
struct Staged {
  static constexpr int kVectors = kItems * sizeof(E) / 16, kOperands = kCarried ? 3 : 2, kStages = kCarried ? 3 : 4;
  static constexpr int kBytes = Runs::kWarps * kStages * kOperands * kVectors * 32 * 16;
  static constexpr int kSums = kOperands;  // over rows of g xh and g, and of dx

  using Raw = typename reduce::Packed<E>::Raw;
  using Memory = Raw[kStages][kOperands][kVectors][32];

  Memory& memory;

  __device__ explicit Staged(char* all) : memory(reinterpret_cast<Memory*>(all)[threadIdx.x / 32]) {}
  __device__ Raw& vector(int stage, int operand, int v) { return memory[stage][operand][v][threadIdx.x % 32]; }
  /// Starts the copy of a row, zeros beyond n.
  __device__ void fetch(int stage, int operand, const Rows& rows, int64_t start, int64_t n) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t i = Tile<reduce::Packed<E>, 32, kItems>::place(v * (kItems / kVectors));
      const E* const from = reinterpret_cast<const E*>(rows.data) + start + (i < n ? i : 0);
      arch::copy_async(arch::shared_address(&vector(stage, operand, v)), from, i < n);
    }
  }
};

/// Warp w of block b has rows [(4 b + w) each, (4 b + w + 1) each). parts[b][kSums][n]: sums over the block's rows of g xh, of g
/// and, if something is carried, of dx; parts may be null.
template <typename E, int kItems, bool kCarried>
__global__ void __launch_bounds__(32 * Runs::kWarps, 2)
    warp_backward(const __grid_constant__ Rows g, const __grid_constant__ Rows x, const __grid_constant__ Rows carried,
                  Weights weight, const __grid_constant__ Rows dx, float* parts, int64_t rows, int64_t each,
                  const __grid_constant__ Kind kind) {
  using S = reduce::Packed<E>;
  using P = Tile<S, 32, kItems>;
  using Rings = Staged<E, kItems, kCarried>;
  constexpr int kWidth = S::kWidth, kVectors = Rings::kVectors, kStages = Rings::kStages, kSums = Rings::kSums;
  extern __shared__ __align__(16) char warp_memory[];
  __shared__ typename Team<32, float>::Shared shared;
  Team<32, float> team(shared);
  Rings staged(warp_memory);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t n = kind.n, first = (static_cast<int64_t>(blockIdx.x) * Runs::kWarps + warp) * each,
                end = min(first + each, rows);
  float sums[kSums][kItems] = {}, weights[kItems];
  const auto fetch = [&](int64_t row, int stage) {
    if (row < end) {
      staged.fetch(stage, 0, g, row * n, n);
      staged.fetch(stage, 1, x, row * n, n);
      if constexpr (kCarried) staged.fetch(stage, 2, carried, row * n, n);
    }
    arch::commit_copies();
  };
#pragma unroll
  for (int stage = 0; stage + 1 < kStages; ++stage) fetch(first + stage, stage);
  P::load_weight(weight.data, weight.dtype, n, weights, 1.0f);
  int stage = 0;
  for (int64_t row = first; row < end; ++row) {
    arch::wait_copies<kStages - 2>();
    float gradient[kItems], values[kItems], totals[2];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      S::decode(staged.vector(stage, 0, v), &gradient[v * kWidth]);
      S::decode(staged.vector(stage, 1, v), &values[v * kWidth]);
    }
    fetch(row + kStages - 1, stage == 0 ? kStages - 1 : stage - 1);  // where the row before was
    const float start = __shfl_sync(0xffffffffu, values[0], 0);
    const Statistics<float> of = centre_with<S, 32, kItems>(
        team, x, row * n, kind, start, [&](int k) { return gradient[k] * weights[k]; }, values, totals);
    const float along = totals[0] * static_cast<float>(kind.inverse_n), rate = of.rate();
    const float plain = kind.centred ? totals[1] * static_cast<float>(kind.inverse_n) : 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      float more[kWidth] = {};
      if constexpr (kCarried) S::decode(staged.vector(stage, 2, v), more);
#pragma unroll
      for (int k = v * kWidth; k < (v + 1) * kWidth; ++k) {
        values[k] = values[k] * of.scale + of.offset;
        sums[0][k] += gradient[k] * values[k];
        sums[1][k] += gradient[k];
        gradient[k] = rate * ((gradient[k] * weights[k] - plain) - values[k] * along) + more[k - v * kWidth];
        if constexpr (kCarried) sums[2][k] += gradient[k];
      }
      if (P::place(v * kWidth) < n) S::store(dx, row * n, P::place(v * kWidth), &gradient[v * kWidth]);
    }
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  if (parts == nullptr) return;
  using Merged = double[kSums][33 * kItems];  // [k][lane]: lanes side by side, no bank twice
  static_assert(sizeof(Merged) <= Rings::kBytes);
  Merged& merged = *reinterpret_cast<Merged*>(warp_memory);
  arch::wait_copies<0>();
  for (int turn = 0; turn < Runs::kWarps; ++turn) {
    __syncthreads();
    if (turn != warp) continue;
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      const int i = k * 33 + static_cast<int>(threadIdx.x) % 32;
#pragma unroll
      for (int which = 0; which < kSums; ++which)
        merged[which][i] = (turn == 0 ? 0 : merged[which][i]) + static_cast<double>(sums[which][k]);
    }
  }
  __syncthreads();
  for (int which = 0; which < kSums; ++which) {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += 32 * Runs::kWarps) {
      const int vector = i / kWidth, k = vector / 32 * kWidth + i % kWidth;
      parts[(static_cast<int64_t>(blockIdx.x) * kSums + which) * n + i] = static_cast<float>(merged[which][k * 33 + vector % 32]);
    }
  }
}

/// What a block of this device may have at most, in bytes; DECKLE_CUDA_SHARED_MEMORY, for tests, if that is less.
inline int64_t shared_memory(Device device) {
  int bytes = 0;
  deckle::cuda::check_call(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device.index), "a kernel");
  const char* const cap = std::getenv("DECKLE_CUDA_SHARED_MEMORY");
  return cap != nullptr ? std::min(bytes, std::atoi(cap)) : bytes;
}

/// Launches warp_backward over Runs(rows). False, and nothing done, if a row is too long for a warp, or for the memory of a
/// block.
template <bool kCarried>
bool launch_warp_backward(const Context& context, DType dtype, const Rows& g, const Rows& x, const Rows& carried,
                          const Weights& weight, const Rows& dx, float* parts, int64_t rows, const Kind& kind) {
  bool served = true;
  const Runs runs(rows);
  const auto launch = [&]<typename E, int kItems>(TypeTag<E>, std::integral_constant<int, kItems>) {
    constexpr int kBytes = Staged<E, kItems, kCarried>::kBytes;
    auto* const kernel = &warp_backward<E, kItems, kCarried>;
    if (kBytes + 1024 > 48 * 1024) {  // a little is static
      served = kBytes + 1024 <= shared_memory(context.device);
      if (!served) return;
      deckle::cuda::check_call(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes), "a kernel");
    }
    if (rows > 0)
      kernel<<<static_cast<unsigned>(runs.blocks), 32 * Runs::kWarps, kBytes, deckle::cuda::stream_handle(context.device)>>>(
          g, x, carried, weight, dx, parts, rows, runs.each, kind);
  };
  return for_rows_of_warps(dtype, kind.n, launch) && served;
}

}  // namespace deckle::kernels::cuda::norm
