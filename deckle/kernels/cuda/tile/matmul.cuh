// Matrix products of one warpgroup: 64 rows, accumulators in registers. All are asynchronous: fence before, commit and wait
// after.
#pragma once

#include "deckle/kernels/cuda/tile/shared_tile.cuh"

namespace deckle::kernels::cuda::tile {

using arch::Element;
using arch::Major;

/// Offset of contraction step `step` (16 values) in an operand whose contraction dim is the column; panels hold `rows` rows.
__device__ __forceinline__ constexpr int column_step(int step, int rows) { return (step / 4) * (rows * 8) + (step % 4) * 2; }

/// The same where the contraction dim is the row: 16 rows of 128 bytes.
__device__ __forceinline__ constexpr int row_step(int step) { return step * 128; }

/// c[64 x N] (+)= a[64 x K] b[N x K]ᵀ; a and b in tiles of rows_a and rows_b rows.
template <Element element, int N, int K, int rows_a, int rows_b, bool overwrite>
__device__ __forceinline__ void multiply_transposed(float (&c)[N / 2], Operand a, Operand b) {
  using Instruction = arch::Wgmma<element, N>;
  Instruction::template shared<Major::contraction, Major::contraction, overwrite>(c, a.descriptor(0), b.descriptor(0));
#pragma unroll
  for (int step = 1; step < K / 16; ++step) {
    Instruction::template shared<Major::contraction, Major::contraction, false>(c, a.descriptor(column_step(step, rows_a)),
                                                                                b.descriptor(column_step(step, rows_b)));
  }
}

/// c[64 x N] (+)= a[64 x K] b[N x K]ᵀ; a in registers, b in a tile of rows_b rows.
template <Element element, int N, int K, int rows_b, bool overwrite>
__device__ __forceinline__ void multiply_transposed(float (&c)[N / 2], const uint32_t (&a)[K / 4], Operand b) {
  using Instruction = arch::Wgmma<element, N>;
  Instruction::template registers<Major::contraction, overwrite>(c, a[0], a[1], a[2], a[3], b.descriptor(0));
#pragma unroll
  for (int step = 1; step < K / 16; ++step) {
    Instruction::template registers<Major::contraction, false>(c, a[4 * step], a[4 * step + 1], a[4 * step + 2], a[4 * step + 3],
                                                               b.descriptor(column_step(step, rows_b)));
  }
}

/// Rows row .. row + 63 of a tile as the register operand: a[64 x K].
template <int K>
__device__ __forceinline__ void load_operand(uint32_t (&a)[K / 4], uint32_t address, int rows, int row, int thread) {
  const int lane = thread & 31, source_row = row + 16 * ((thread >> 5) & 3) + (lane & 15);
#pragma unroll
  for (int step = 0; step < K / 16; ++step) {
    uint32_t m[4];
    arch::load_matrices(m, address + chunk_offset(rows, source_row, 16 * step + 8 * (lane >> 4)));
#pragma unroll
    for (int i = 0; i < 4; ++i) a[4 * step + i] = m[i];
  }
}

/// c[64 x N] (+)= a[64 x K] b[K x N]; a in registers.
template <Element element, int N, int K, bool overwrite>
__device__ __forceinline__ void multiply(float (&c)[N / 2], const uint32_t (&a)[K / 4], Operand b) {
  using Instruction = arch::Wgmma<element, N>;
  Instruction::template registers<Major::other, overwrite>(c, a[0], a[1], a[2], a[3], b.descriptor(0));
#pragma unroll
  for (int step = 1; step < K / 16; ++step) {
    Instruction::template registers<Major::other, false>(c, a[4 * step], a[4 * step + 1], a[4 * step + 2], a[4 * step + 3],
                                                         b.descriptor(row_step(step)));
  }
}

/// c[64 x N] (+)= a[K x 64]ᵀ b[K x N]; both in shared memory.
template <Element element, int N, int K, bool overwrite>
__device__ __forceinline__ void multiply_shared_transposed(float (&c)[N / 2], Operand a, Operand b) {
  using Instruction = arch::Wgmma<element, N>;
  Instruction::template shared<Major::other, Major::other, overwrite>(c, a.descriptor(0), b.descriptor(0));
#pragma unroll
  for (int step = 1; step < K / 16; ++step) {
    Instruction::template shared<Major::other, Major::other, false>(c, a.descriptor(row_step(step)),
                                                                    b.descriptor(row_step(step)));
  }
}

/// c[64 x N] (+)= a[K x 64]ᵀ b[N x K]ᵀ; both in shared memory, b in a tile of rows_b rows.
template <Element element, int N, int K, int rows_b, bool overwrite>
__device__ __forceinline__ void multiply_both_transposed(float (&c)[N / 2], Operand a, Operand b) {
  using Instruction = arch::Wgmma<element, N>;
  Instruction::template shared<Major::other, Major::contraction, overwrite>(c, a.descriptor(0), b.descriptor(0));
#pragma unroll
  for (int step = 1; step < K / 16; ++step) {
    Instruction::template shared<Major::other, Major::contraction, false>(c, a.descriptor(row_step(step)),
                                                                          b.descriptor(column_step(step, rows_b)));
  }
}

/// Packs accumulators into the A operand of a following product: the layouts agree, nothing moves.
template <Element element, int count>
__device__ __forceinline__ void pack_operand(uint32_t (&a)[count / 2], const float (&c)[count]) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i) a[i] = arch::pack<element>(c[2 * i], c[2 * i + 1]);
}

/// Row (0..63) of accumulator register pair 0; pair 1 is 8 rows below.
__device__ __forceinline__ int accumulator_row(int thread) { return 16 * ((thread >> 5) & 3) + ((thread & 31) >> 2); }

/// Column of accumulator 0; accumulator i is at + 8 (i / 4) + i % 2.
__device__ __forceinline__ int accumulator_column(int thread) { return 2 * (thread & 3); }

/// Rounds c[64 x N] and stores it as rows `row`.. of a tile of `rows` rows at `address`. Each warp writes its own 16 rows.
template <Element element, int N>
__device__ __forceinline__ void store_accumulators(uint32_t address, int rows, int row, int thread, const float (&c)[N / 2]) {
  const int lane = thread & 31;
  const int target_row = row + 16 * ((thread >> 5) & 3) + (lane & 15);
#pragma unroll
  for (int block = 0; block < N / 16; ++block) {
    const uint32_t target = address + chunk_offset(rows, target_row, 16 * block + 8 * (lane >> 4));
    const float* v = c + 8 * block;
    arch::store_matrices(target, arch::pack<element>(v[0], v[1]), arch::pack<element>(v[2], v[3]),
                         arch::pack<element>(v[4], v[5]), arch::pack<element>(v[6], v[7]));
  }
}

/// Stores a register operand a[64 x K], K <= 64, as rows of a tile of one panel: `row` is the first of this warp's 16.
template <int K>
__device__ __forceinline__ void store_operand(uint32_t address, int row, int thread, const uint32_t (&a)[K / 4]) {
  const uint32_t target = address + (row + (thread & 15)) * kPanelRowBytes;
#pragma unroll
  for (int block = 0; block < K / 16; ++block) {
    const uint32_t chunk = (2 * block + ((thread >> 4) & 1)) ^ (thread & 7);
    arch::store_matrices(target + (chunk << 4), a[4 * block], a[4 * block + 1], a[4 * block + 2], a[4 * block + 3]);
  }
}

}  // namespace deckle::kernels::cuda::tile
