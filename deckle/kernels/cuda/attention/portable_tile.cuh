// Tiles of the portable kernels, and the warp-wide products on them. A tile lies in shared memory row by row, D columns a row,
// its 16-byte chunks permuted (chunk ^= row % 8) so that no eight rows of an ldmatrix share a bank. Blocks have four warps; a
// warp owns 32 rows (16 where D = 256), so that whatever it reads of the other side serves two products.
#pragma once

#include "deckle/kernels/cuda/arch/mma.cuh"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"

namespace deckle::kernels::cuda::attention::portable {

inline constexpr int kThreads = 128;

/// Blocks with so much shared memory that the 99 KB of small devices have room for: what __launch_bounds__ is told. Where it is
/// told nothing (0), ptxas aims at more blocks than fit, and on newer architectures spills a few registers for them. Machine code
/// for sm_80 spills none without, and that for sm_90 is as it was measured.
__host__ __device__ constexpr int blocks_that_fit([[maybe_unused]] int shared_bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 800 && __CUDA_ARCH__ != 900
  return 99 * 1024 / (shared_bytes + 1024);
#else
  return 0;
#endif
}

/// What the kernels of one width of columns have in common. D is 64, 128 or 256. Kernels for Scoring::scores are there for bf16
/// alone, of the backward up to D = 128; elsewhere those of Scoring::planes serve it.
template <int D_, Scoring scoring_, bool backward = false>
struct Width {
  static constexpr int D = D_;
  static constexpr Scoring scoring = scoring_;
  static constexpr bool featured = scoring != Scoring::product;
  template <Element element>
  using ForwardOf = Width<D, scoring == Scoring::scores && element == Element::f16 ? Scoring::planes : scoring>;
  template <Element element>
  using BackwardOf =
      Width<D,
            (element == Element::f16 && D == 256) || (scoring == Scoring::scores && (element == Element::f16 || D == 256))
                ? Scoring::planes
                : scoring,
            true>;
  using Backward = BackwardOf<Element::bf16>;  // of as many rows as the others
  // Of 16 rows that a warp owns; two would not fit the registers of the others.
  static constexpr int blocks = D == 64 || (D == 128 && scoring <= (backward ? Scoring::product : Scoring::scores)) ? 2 : 1;
  static constexpr int rows = 64 * blocks;         // that a block owns
  static constexpr int stages = D == 256 ? 1 : 2;  // of walked tiles: D = 256 shall fit the 99 KB of small devices, too
  static constexpr int row_bytes = 2 * D;
  static constexpr int unrolled = D / 16, copies_at_once = 64;  // steps of a product over the columns, copies of a thread
};

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

/// Copies rows [first, first + rows) asynchronously, zeros for rows and columns that the tensor does not have, and for rows that
/// do not `count`. No branch: the copies of a thread are one batch.
template <class W, int rows, class Counts>
__device__ __forceinline__ void load_tile(uint32_t shared, const Source& from, int first, Counts counts) {
  constexpr int kChunks = W::D / 8, kStep = kThreads / kChunks;  // a thread keeps its column
  static_assert(kThreads % kChunks == 0 && rows % kStep == 0);
  const int chunk = threadIdx.x % kChunks, thread_row = threadIdx.x / kChunks;
  const bool has_column = 8 * chunk < from.columns;
  const char* column = from.base + (has_column ? 16 * chunk : 0);
#pragma unroll W::copies_at_once
  for (int i = 0; i < rows / kStep; ++i) {
    const int local = thread_row + i * kStep, row = first + local;
    const bool valid = has_column && row >= from.rows.begin && row < from.rows.end && counts(row);
    arch::copy_async(shared + local * W::row_bytes + ((chunk ^ (local & 7)) << 4),
                     valid ? column + row * from.row_bytes : from.base, valid);
  }
}

template <class W, int rows>
__device__ __forceinline__ void load_tile(uint32_t shared, const Source& from, int first) {
  load_tile<W, rows>(shared, from, first, [](int) { return true; });
}

/// Where this lane reads row `row` of 16 and chunk `chunk` of 2 of a tile's first 16 x 16 block; the block 16 columns to the
/// right is at ^ 32, the one 16 rows below at + 16 rows. Rows of a tile begin at multiples of row_bytes.
template <class W>
__device__ __forceinline__ uint32_t lane_address(uint32_t tile, int row, int chunk) {
  return tile + row * W::row_bytes + ((chunk ^ (row & 7)) << 4);
}

/// c[16 blocks x N] += a b[N x columns]ᵀ of one warp; a at its first row.
template <Element element, class W, int N>
__device__ __forceinline__ void multiply_transposed(float (&c)[W::blocks][N / 2], uint32_t a, uint32_t b, int columns) {
  const int lane = threadIdx.x % 32;
  const uint32_t a_lane = lane_address<W>(a, lane & 15, lane >> 4);
  const uint32_t b_lane = lane_address<W>(b, (lane & 7) + 8 * (lane >> 4), (lane >> 3) & 1);
#pragma unroll W::unrolled
  for (int step = 0; step < W::D / 16; ++step) {
    if (16 * step >= columns) break;
    uint32_t rows[W::blocks][4];
#pragma unroll
    for (int i = 0; i < W::blocks; ++i) arch::load_matrices(rows[i], (a_lane + i * 16 * W::row_bytes) ^ (32 * step));
#pragma unroll
    for (int block = 0; block < N / 16; ++block) {
      uint32_t m[4];
      arch::load_matrices(m, (b_lane + block * 16 * W::row_bytes) ^ (32 * step));
#pragma unroll
      for (int i = 0; i < W::blocks; ++i) {
        arch::multiply_add<element>(c[i] + 8 * block, rows[i], m[0], m[1]);
        arch::multiply_add<element>(c[i] + 8 * block + 4, rows[i], m[2], m[3]);
      }
    }
  }
}

/// c[16 blocks x D] += a[16 blocks x N] b[N x D] of one warp; a in registers.
template <Element element, class W, int N>
__device__ __forceinline__ void multiply(float (&c)[W::blocks][W::D / 2], const uint32_t (&a)[W::blocks][N / 4], uint32_t b,
                                         int columns) {
  const int lane = threadIdx.x % 32;
  const uint32_t b_lane = lane_address<W>(b, lane & 15, lane >> 4);
#pragma unroll
  for (int block = 0; block < W::D / 16; ++block) {
    if (16 * block >= columns) break;
#pragma unroll
    for (int step = 0; step < N / 16; ++step) {
      uint32_t m[4];
      arch::load_matrices_transposed(m, (b_lane + step * 16 * W::row_bytes) ^ (32 * block));
#pragma unroll
      for (int i = 0; i < W::blocks; ++i) {
        arch::multiply_add<element>(c[i] + 8 * block, a[i] + 4 * step, m[0], m[1]);
        arch::multiply_add<element>(c[i] + 8 * block + 4, a[i] + 4 * step, m[2], m[3]);
      }
    }
  }
}

/// Row of a block's tile that accumulator 0 of block `i` of this thread belongs to; accumulators 2 and 3 are 8 rows below.
template <class W>
__device__ __forceinline__ int owned_row(int i) {
  return 16 * W::blocks * (threadIdx.x / 32) + 16 * i + (threadIdx.x % 32 >> 2);
}

/// Writes one block of 16 rows, rows 8 apart times `factor`; `row` is the thread's first.
template <Element element, int D>
__device__ __forceinline__ void store_rows(const Source& to, int row, const float (&c)[D / 2], const float (&factor)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (row + 8 * h >= to.rows.end) continue;
    char* address = const_cast<char*>(to.base) + (row + 8 * h) * to.row_bytes + 4 * (threadIdx.x & 3);
#pragma unroll
    for (int block = 0; block < D / 8; ++block) {
      if (8 * block >= to.columns) break;
      *reinterpret_cast<uint32_t*>(address + 16 * block) =
          arch::pack<element>(c[4 * block + 2 * h] * factor[h], c[4 * block + 2 * h + 1] * factor[h]);
    }
  }
}

/// Sequence and tile of slot `slot`. Dense: slots are (sequence, tile).
/// Ragged: sequence s owns the slots from offsets[s] / height + s on, which are enough for its tiles whatever the lengths, so no
/// list is needed; surplus slots are past the sequence's end.
struct Place {
  int sequence, tile;
};

template <int height>
__device__ __forceinline__ Place place_of(const Sequences& sequences, int batch, int slot) {
  if (sequences.offsets == nullptr) {
    const int tiles = (sequences.rows + height - 1) / height;
    return {slot / tiles, slot % tiles};
  }
  int low = 0, high = batch - 1;  // the last s with offsets[s] / height + s <= slot
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (sequences.offsets[middle] / height + middle <= slot) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return {low, slot - static_cast<int>(sequences.offsets[low] / height) - low};
}

template <int height>
int64_t slots(const AttentionSizes& sizes, int64_t rows) {
  return sizes.ragged() ? rows / height + sizes.batch : (rows + height - 1) / height * sizes.batch;
}

/// call(Width<...>) for the narrowest width that holds both head dims.
template <Scoring scoring, class Call>
auto with_width(const AttentionSizes& sizes, Call call) {
  const int dim = sizes.head_dim > sizes.value_dim ? sizes.head_dim : sizes.value_dim;
  if (dim <= 64) return call(Width<64, scoring>{});
  if (dim <= 128) return call(Width<128, scoring>{});
  return call(Width<256, scoring>{});
}

template <class Call>
auto with_width(const CudaAttentionProblem& problem, Call call) {
  switch (scoring_of(problem)) {
    case Scoring::product:
      return with_width<Scoring::product>(problem.sizes, call);
    case Scoring::scores:
      return with_width<Scoring::scores>(problem.sizes, call);
    default:
      return with_width<Scoring::planes>(problem.sizes, call);
  }
}

}  // namespace deckle::kernels::cuda::attention::portable
