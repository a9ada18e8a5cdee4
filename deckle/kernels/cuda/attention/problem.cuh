// The attention problem as device code sees it: mask intervals, and where a sequence lies in the tensor maps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/tile/tensor_map.h"

namespace deckle::kernels::cuda::attention {

/// The same mask with windows that arithmetic on row numbers cannot overflow: beyond 2^30 in either direction they say no more.
inline AttentionWindow bound_window(AttentionWindow mask) {
  mask.left = std::clamp(mask.left, -kUnboundedWindow, kUnboundedWindow);
  mask.right = std::clamp(mask.right, -kUnboundedWindow, kUnboundedWindow);
  return mask;
}

struct Interval {
  int begin, end;  // empty if begin >= end
};

/// Keys that query row `row` of a sequence with `queries` x `keys` attends by a bounded mask. Both ends grow with the row, so the
/// keys of rows [a, b] are [begin of a, end of b).
__host__ __device__ inline Interval key_interval(const AttentionWindow& mask, int row, int queries, int keys) {
  const int center = row + (mask.bottom_right ? keys - queries : 0);
  const int begin = center - mask.left, end = center + mask.right + 1;
  return {begin > 0 ? begin : 0, end < keys ? end : keys};
}

/// Query rows that attend key `key`: the transpose of key_interval, also growing with the key.
__host__ __device__ inline Interval query_interval(const AttentionWindow& mask, int key, int queries, int keys) {
  const int center = key - (mask.bottom_right ? keys - queries : 0);
  const int begin = center - mask.right, end = center + mask.left + 1;
  return {begin > 0 ? begin : 0, end < queries ? end : queries};
}

/// Row i attends keys [max(0, i + low), min(N, i + high + 1)). Unbounded sides are +-2^30, beyond any length.
struct Band {
  int low, high;
};

__host__ __device__ inline Band band_of(const AttentionWindow& mask, int queries, int keys) {
  const int offset = mask.bottom_right ? keys - queries : 0;
  return {mask.left >= kUnboundedWindow ? -kUnboundedWindow : offset - mask.left,
          mask.right >= kUnboundedWindow ? kUnboundedWindow : offset + mask.right};
}

/// Query rows that attend a key by the interval mask: consecutive. The others may hold NaN in dO (a loss that reads lse puts it
/// there), and 0 * NaN would reach every sum over rows, so no backward loads them. `first` may lie behind the last row.
struct LiveRows {
  int first, count;

  __host__ __device__ int end() const { return first + count; }
};

__host__ __device__ inline LiveRows live_rows(const Band& band, int queries, int keys) {
  const int first = -band.high > 0 ? -band.high : 0, end = queries < keys - band.low ? queries : keys - band.low;
  return {first, keys > 0 && band.low <= band.high && end > first ? end - first : 0};
}

/// One sequence's rows of one tensor: row i has tensor map coordinates (row_origin + i, ..., batch).
struct Sequence {
  int row_origin;
  int batch;
  int length;
  int64_t start;  // first row in the packed tensor; 0 if dense
};

/// Rows [start, end) of a ragged batch.
struct RowSpan {
  int64_t start, end;
};

/// Those of sequence `index`. Offsets and lengths (null: up to the next offset) come from the device and are not to be trusted:
/// whatever they say, the span lies within the `rows` there are, and ends before the next sequence's.
__device__ __forceinline__ RowSpan row_span(const int64_t* offsets, const int64_t* lengths, int index, int rows) {
  const auto within = [&](int64_t row, int64_t first) { return row < first ? first : row > rows ? int64_t{rows} : row; };
  const int64_t start = within(offsets[index], 0);
  const int64_t end = within(offsets[index + 1], start);
  if (lengths == nullptr || lengths[index] >= end - start) return {start, end};
  return {start, start + (lengths[index] > 0 ? lengths[index] : 0)};
}

/// The sequences of one side (queries or keys).
struct Sequences {
  const int64_t* offsets;  // null: dense
  const int64_t* lengths;  // of the rows of each sequence, those that count; null: all
  int rows;                // of each sequence; ragged: of all

  __device__ __forceinline__ Sequence operator[](int index) const {
    if (offsets == nullptr) return {0, index, rows, 0};
    const RowSpan span = row_span(offsets, lengths, index, rows);
    const int length = static_cast<int>(span.end - span.start);
    return {(rows > 0 ? rows : 1) - length, static_cast<int>(span.end), length, span.start};
  }
};

/// What every kernel of a launch knows.
struct DeviceProblem {
  Sequences queries, keys;
  AttentionWindow mask;
  int batch, heads, kv_heads;
  float scale;
  float scale_log2;  // |scale| log2 e; for a scale of 0 the smallest number above it, which does not turn -inf into NaN
  float scale_sign;  // +1 or -1
};

/// Element of lse of row 0 of (sequence, head), which starts at packed row `start` if ragged; the next row is `heads` further.
__device__ __forceinline__ int64_t lse_index(const DeviceProblem& problem, int sequence, int64_t start, int head) {
  const int64_t row = problem.queries.offsets == nullptr ? int64_t{sequence} * problem.queries.rows : start;
  return row * problem.heads + head;
}

DeviceProblem device_problem(const CudaAttentionProblem& problem);

/// The map of q, k, v, out or a gradient of theirs. An empty tensor may come without memory: its map is made over the workspace
/// and never read.
CUtensorMap operand_map(const CudaAttentionProblem& problem, const AttentionTensor& tensor, bool key_side, int columns,
                        int box_rows);

}  // namespace deckle::kernels::cuda::attention
