#include "deckle/kernels/cuda/attention/split_parts.cuh"

#include <algorithm>

#include "deckle/kernels/cuda/attention/launch.h"

namespace deckle::kernels::cuda::attention {
namespace {

constexpr int kRowsOfWarp = 8, kRowsOfBlock = 64;
constexpr int kPairsOfLane = 2;  // pairs of columns, 64 columns apart

/// The sequence of a packed row: the last that begins at or before it.
__device__ __forceinline__ int sequence_of_row(const int64_t* offsets, int batch, int64_t row) {
  int first = 0, count = batch;
  while (count > 1) {
    const int half = count / 2;
    if (offsets[first + half] <= row) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return first;
}

/// Scores err by up to this times 2^-38, where every product of theirs is of the largest numbers of q and k.
constexpr float kMostScore = 1 << 17;
constexpr int kInfinity = 0x7f800000, kMantissaBits = 23;

/// Whether the parts of a head of a sequence, with this peak, may err by more than float32 itself does.
__device__ __forceinline__ bool unsuited(const SplitSides& args, const SplitSide& side, int sequence, int head, int peak) {
  const int depth = side.depths[int64_t{sequence} * side.heads + head];
  if (depth > 0 && (peak >> kMantissaBits) - (256 - depth) > side.range) return true;
  if (&side != args.side) return false;
  const SplitSide& keys = args.side[args.key_side];
  const int kv_head = head / (side.heads / keys.heads);
  const float most = static_cast<float>(side.columns) * args.scale * __int_as_float(peak) *
                     __int_as_float(keys.peaks[int64_t{sequence} * keys.heads + kv_head]);
  return !(fabsf(most) <= kMostScore);
}

/// No atomic where the largest so far, perhaps an older one, is as large already.
__device__ __forceinline__ void raise(int* largest, int x) {
  if (x > *largest) atomicMax(largest, x);
}

/// Either finds the peaks or writes the parts. A warp takes a few rows of a head, 64 columns at a time.
__global__ void __launch_bounds__(256) split_rows(const __grid_constant__ SplitSides args, bool writes) {
  const SplitSide& side = args.side[blockIdx.z];
  const int head = blockIdx.y, lane = threadIdx.x % 32;
  if (head >= side.heads || args.batch == 0) return;
  const bool ragged = side.sequences.offsets != nullptr;
  const int64_t all = int64_t{side.sequences.rows} * (ragged ? 1 : args.batch);
  const int64_t first = int64_t{blockIdx.x} * kRowsOfBlock + threadIdx.x / 32 * kRowsOfWarp;
  int of = -1, peak = 0, depth = 0, of_columns[2 * kPairsOfLane] = {};
  bool special = false;
  const auto column_peaks = [&] { return side.column_peaks + (int64_t{of} * side.heads + head) * args.width; };
  const auto leave = [&] {
    if (writes || of < 0) return;
    if (lane == 0 && peak > 0) {
      atomicMax(side.peaks + int64_t{of} * side.heads + head, peak);
      atomicMax(side.depths + int64_t{of} * side.heads + head, depth);
    }
    peak = depth = 0;
#pragma unroll
    for (int i = 0; i < 2 * kPairsOfLane; ++i) {
      if (side.column_peaks != nullptr && of_columns[i] > 0)
        raise(column_peaks() + 64 * (i / 2) + 2 * lane + i % 2, of_columns[i]);
      of_columns[i] = 0;
    }
  };
  for (int64_t row = first; row < min(first + kRowsOfWarp, all); ++row) {
    int sequence;
    bool starts;
    const float* from = side.data + head * side.head_stride;
    if (ragged) {
      sequence = sequence_of_row(side.sequences.offsets, args.batch, row);
      const RowSpan span = row_span(side.sequences.offsets, side.sequences.lengths, sequence, side.sequences.rows);
      const bool spare = row < span.start || row >= span.end;
      if (spare && !writes) continue;
      from = spare ? nullptr : from + row * side.row_stride;  // tiles reach over the ends of sequences: zeros are there
      starts = row == span.start;
    } else {
      sequence = static_cast<int>(row / side.sequences.rows);
      const int64_t within = row - int64_t{sequence} * side.sequences.rows;
      from += sequence * side.batch_stride + within * side.row_stride;
      starts = within == 0;
    }
    if (sequence != of) {
      leave();
      of = sequence;
      if (writes) peak = side.peaks[int64_t{of} * side.heads + head];
      if (writes && lane == 0 && unsuited(args, side, of, head, peak)) *args.unsuited = 1;
    }
    if (writes && starts && side.column_peaks != nullptr) {
      for (int column = lane; column < args.width; column += 32) {
        const int of_column = column_peaks()[column];
        if (of_column > 0 && (peak >> kMantissaBits) - (of_column >> kMantissaBits) > kColumnRange) *args.unsuited = 1;
      }
    }
    if (side.lse != nullptr && side.lse[row * side.heads + head] == -INFINITY) from = nullptr;
    const float scale = writes ? power_of_two(part_exponent(peak)) : 0.0f;
    int largest = 0;
#pragma unroll
    for (int pair = 0; pair < kPairsOfLane; ++pair) {
      const int column = 64 * pair + 2 * lane;
      if (column >= args.width) break;
      float x[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) x[i] = from != nullptr && column + i < side.columns ? from[column + i] : 0.0f;
      if (writes) {
        const __half2 high = __floats2half2_rn(x[0] * scale, x[1] * scale);
        const float2 rounded = __half22float2(high);
        __half* to = side.parts + (row * side.heads + head) * args.width + column;
        *reinterpret_cast<__half2*>(to) = high;
        *reinterpret_cast<__half2*>(to + side.part) = __floats2half2_rn(x[0] * scale - rounded.x, x[1] * scale - rounded.y);
      } else {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int bits = __float_as_int(x[i]) & 0x7fffffff;
          special |= bits >= kInfinity;
          const int finite = bits < kInfinity ? bits : 0;
          largest = max(largest, finite);
          of_columns[2 * pair + i] = max(of_columns[2 * pair + i], finite);
        }
      }
    }
    if (writes) continue;
    largest = __reduce_max_sync(~0u, largest);
    peak = max(peak, largest);
    if (largest > 0) depth = max(depth, 256 - (largest >> kMantissaBits));
  }
  leave();
  if (special) *args.unsuited = 1;
}

}  // namespace

void split_operands(const SplitSides& sides, cudaStream_t stream) {
  int64_t rows = 0, heads = 0;
  for (int i = 0; i < sides.sides; ++i) {
    const SplitSide& side = sides.side[i];
    rows = std::max(rows, int64_t{side.sequences.rows} * (side.sequences.offsets != nullptr ? 1 : sides.batch));
    heads = std::max<int64_t>(heads, side.heads);
  }
  if (rows == 0 || heads == 0) return;
  const dim3 grid(static_cast<unsigned>((rows + kRowsOfBlock - 1) / kRowsOfBlock), static_cast<unsigned>(heads), sides.sides);
  launch_kernel("attention: peaks of float32", split_rows, grid, 256, 0, stream, sides, false);
  launch_kernel("attention: parts of float32", split_rows, grid, 256, 0, stream, sides, true);
}

}  // namespace deckle::kernels::cuda::attention
