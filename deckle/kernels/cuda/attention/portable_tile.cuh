// Tiles of the portable kernels: 64 rows in shared memory, 16 bytes of padding a row so that no eight rows of an ldmatrix share a
// bank, and the warp-wide products on them. Blocks have four warps of 16 rows each.
#pragma once

#include "deckle/kernels/cuda/arch/mma.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"

namespace deckle::kernels::cuda::attention::portable {

using arch::Element;

inline constexpr int kRows = 64;
inline constexpr int kThreads = 128;

/// 64 rows of up to D columns.
template <int D>
struct Tile {
  static constexpr int stride = 2 * D + 16;  // bytes
  static constexpr int bytes = kRows * stride;
};

/// Query rows that attend a key: consecutive. The others may hold NaN in dO (a loss that reads lse puts it there), and 0 * NaN
/// would reach every sum over rows, so the backward never loads them.
__device__ __forceinline__ Interval live_rows(const AttentionMask& mask, int queries, int keys) {
  if (keys == 0 || -mask.left > mask.right) return {0, 0};
  return {query_interval(mask, 0, queries, keys).begin, query_interval(mask, keys - 1, queries, keys).end};
}

/// A tensor and where this block's head of it begins.
struct Source {
  const char* base;
  int64_t row_bytes;
  Interval rows;  // others read as zeros
  int columns;
};

__device__ __forceinline__ Source source(const AttentionTensor& tensor, const Sequence& sequence, Interval rows, int index,
                                         int head, int columns, bool ragged) {
  const int64_t first = (ragged ? sequence.start * tensor.row_stride : index * tensor.batch_stride) + head * tensor.head_stride;
  return {static_cast<const char*>(tensor.data) + 2 * first, 2 * tensor.row_stride, rows, columns};
}

/// Copies rows [first, first + 64) asynchronously, zeros for rows and columns that the tensor does not have. No branch: the
/// copies of a thread are one batch.
template <int D>
__device__ __forceinline__ void load_tile(uint32_t shared, const Source& from, int first) {
  constexpr int kChunks = D / 8, kStep = kThreads / kChunks;  // a thread keeps its column
  static_assert(kThreads % kChunks == 0 && kRows % kStep == 0);
  const int chunk = threadIdx.x % kChunks, thread_row = threadIdx.x / kChunks;
  const bool has_column = 8 * chunk < from.columns;
  const char* column = from.base + (has_column ? 16 * chunk : 0);
  const uint32_t target = shared + thread_row * Tile<D>::stride + 16 * chunk;
#pragma unroll
  for (int i = 0; i < kRows / kStep; ++i) {
    const int row = first + thread_row + i * kStep;
    const bool valid = has_column && row >= from.rows.begin && row < from.rows.end;
    arch::copy_async(target + i * kStep * Tile<D>::stride, valid ? column + row * from.row_bytes : from.base, valid);
  }
}

/// c[16 x 64] += a[16 x K] b[64 x K]ᵀ of one warp; a at its first row, columns beyond `columns` are left out.
template <Element element, int D>
__device__ __forceinline__ void multiply_transposed(float (&c)[32], uint32_t a, uint32_t b, int columns) {
  const int lane = threadIdx.x % 32;
  const uint32_t a_lane = a + (lane & 15) * Tile<D>::stride + (lane >> 4) * 16;
  const uint32_t b_lane = b + ((lane & 7) + 8 * (lane >> 4)) * Tile<D>::stride + ((lane >> 3) & 1) * 16;
#pragma unroll 2
  for (int step = 0; step < columns / 16; ++step) {
    uint32_t rows[4];
    arch::load_matrices(rows, a_lane + 32 * step);
#pragma unroll
    for (int block = 0; block < 4; ++block) {
      uint32_t m[4];
      arch::load_matrices(m, b_lane + block * 16 * Tile<D>::stride + 32 * step);
      arch::multiply_add<element>(c + 8 * block, rows, m[0], m[1]);
      arch::multiply_add<element>(c + 8 * block + 4, rows, m[2], m[3]);
    }
  }
}

/// c[16 x D] += a[16 x 64] b[64 x D] of one warp; a in registers.
template <Element element, int D>
__device__ __forceinline__ void multiply(float (&c)[D / 2], const uint32_t (&a)[16], uint32_t b, int columns) {
  const int lane = threadIdx.x % 32;
  const uint32_t b_lane = b + (lane & 15) * Tile<D>::stride + (lane >> 4) * 16;
#pragma unroll
  for (int block = 0; block < D / 16; ++block) {
    if (16 * block >= columns) break;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      uint32_t m[4];
      arch::load_matrices_transposed(m, b_lane + step * 16 * Tile<D>::stride + 32 * block);
      arch::multiply_add<element>(c + 8 * block, a + 4 * step, m[0], m[1]);
      arch::multiply_add<element>(c + 8 * block + 4, a + 4 * step, m[2], m[3]);
    }
  }
}

/// Writes c[16 x D] of one warp, rows 8 apart times `factor`, to rows `first_row`.. of the tensor.
template <Element element, int D>
__device__ __forceinline__ void store_rows(const Source& to, int first_row, const float (&c)[D / 2], const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first_row + (lane >> 2) + 8 * h;
    if (row >= to.rows.end) continue;
    char* address = const_cast<char*>(to.base) + row * to.row_bytes + 4 * (lane & 3);
#pragma unroll
    for (int block = 0; block < D / 8; ++block) {
      if (8 * block >= to.columns) break;
      *reinterpret_cast<uint32_t*>(address + 16 * block) =
          arch::pack<element>(c[4 * block + 2 * h] * factor[h], c[4 * block + 2 * h + 1] * factor[h]);
    }
  }
}

/// Sequence and tile of slot `slot`. Dense: slots are (sequence, tile). Ragged: sequence s owns the slots from offsets[s] / 64 +
/// s on, which are enough for its tiles whatever the lengths, so no list is needed; surplus slots are past the sequence's end.
struct Place {
  int sequence, tile;
};

__device__ __forceinline__ Place place_of(const Sequences& sequences, int batch, int slot) {
  if (sequences.offsets == nullptr) {
    const int tiles = (sequences.rows + kRows - 1) / kRows;
    return {slot / tiles, slot % tiles};
  }
  int low = 0, high = batch - 1;  // the last s with offsets[s] / 64 + s <= slot
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (sequences.offsets[middle] / kRows + middle <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return {low, slot - static_cast<int>(sequences.offsets[low] / kRows) - low};
}

inline int64_t slots(const AttentionSizes& sizes, int64_t rows) {
  return sizes.ragged() ? rows / kRows + sizes.batch : (rows + kRows - 1) / kRows * sizes.batch;
}

}  // namespace deckle::kernels::cuda::attention::portable
