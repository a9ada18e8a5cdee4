// Planes (bias, masks of bytes) and ranges of keys as one head of one sequence sees them.
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/problem.cuh"

namespace deckle::kernels::cuda::attention {

/// The element of (query row, key row) is data[row * row_stride + column * column_stride].
template <class T>
struct HeadPlane {
  T* data;  // null: none
  int64_t row_stride, column_stride;

  __device__ __forceinline__ T& at(int row, int column) const { return data[row * row_stride + column * column_stride]; }
};

template <class T>
__device__ __forceinline__ HeadPlane<T> head_plane(const CudaAttentionPlane& plane, int sequence, int head, int queries,
                                                   int keys) {
  T* data = static_cast<T*>(plane.data);
  if (data == nullptr) return {nullptr, 0, 0};
  if (plane.offsets == nullptr)
    return {data + sequence * plane.sequence_stride + head * plane.head_stride, plane.row_stride, plane.column_stride};
  const int64_t rows = plane.row_stride != 0 ? queries : 1, columns = plane.column_stride != 0 ? keys : 1;
  return {data + plane.offsets[sequence] + (plane.head_stride != 0 ? head * rows * columns : 0),
          plane.row_stride != 0 ? columns : 0, plane.column_stride != 0 ? 1 : 0};
}

/// The ranges of the rows of one sequence.
struct SequenceRanges {
  const int2* bounds;  // of its first row; null: every key
  int count;

  /// Whether row `row` sees any of the keys [begin, end).
  __device__ __forceinline__ bool meets(int row, int begin, int end) const {
    for (int r = 0; r < count; ++r) {
      const int2 range = bounds[int64_t{row} * count + r];
      if (range.x < end && range.y > begin && range.x < range.y) return true;
    }
    return false;
  }
  __device__ __forceinline__ bool hold(int row, int key) const { return meets(row, key, key + 1); }
};

/// `packed`: the sequence's first packed query row.
__device__ __forceinline__ SequenceRanges sequence_ranges(const AttentionRanges& ranges, int64_t packed) {
  if (ranges.bounds == nullptr) return {nullptr, 0};
  return {reinterpret_cast<const int2*>(ranges.bounds) + packed * ranges.count, ranges.count};
}

__device__ __forceinline__ int64_t packed_row(const DeviceProblem& problem, int sequence, const Sequence& queries) {
  return problem.queries.offsets == nullptr ? int64_t{sequence} * problem.queries.rows : queries.start;
}

}  // namespace deckle::kernels::cuda::attention
