// Running sums of the rows of a tile while keys go by, for values and for one tangent.
#pragma once

#include "deckle/kernels/cuda/general_attention/dropout.cuh"

namespace deckle::kernels::cuda::general {

/// Of this thread's four queries; the 16 threads of a row hold the same.
template <typename T>
struct RunningRows {
  T maximum[kSide], total[kSide];

  /// A sink is the first element that is seen; -inf: none.
  __device__ explicit RunningRows(T sink) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      maximum[r] = sink;
      total[r] = sink == -infinity<T>() ? T(0) : T(1);
    }
  }

  /// Logits become e = exp(z - maximum); `rescale` is the factor of what was summed before.
  __device__ void add(Tile<T>& z, T (&rescale)[kSide]) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      T highest = z[r][0], sum = 0;
#pragma unroll
      for (int c = 1; c < kSide; ++c) highest = fmax(highest, z[r][c]);
      highest = fmax(maximum[r], row_maximum(highest));
      const T origin = highest == -infinity<T>() ? T(0) : highest;  // -inf - -inf is NaN
      rescale[r] = exp(maximum[r] - origin);
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        z[r][c] = exp(z[r][c] - origin);
        sum += z[r][c];
      }
      total[r] = total[r] * rescale[r] + row_sum(sum);
      maximum[r] = highest;
    }
  }
  __device__ T lse(int r) const { return total[r] == T(0) ? -infinity<T>() : maximum[r] + log(total[r]); }
  /// 1 / total, and 0 for a row that has seen nothing.
  __device__ T share(int r) const { return total[r] == T(0) ? T(0) : T(1) / total[r]; }
};

/// The mean of a tangent over the keys so far, on which the second sum of a row stays centred.
template <typename T>
struct RunningMean {
  T mean[kSide];

  __device__ explicit RunningMean(T first) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) mean[r] = first;
  }
  /// tz becomes e (tz - mean), with the mean of the keys up to here; `shift`: by how much it moved.
  __device__ void add(const Tile<T>& e, const RunningRows<T>& rows, Tile<T>& tz, T (&shift)[kSide]) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      T sum = 0;
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        if (e[r][c] != T(0)) sum += e[r][c] * (tz[r][c] - mean[r]);
      }
      sum = row_sum(sum);
      shift[r] = rows.total[r] == T(0) ? T(0) : sum / rows.total[r];
      mean[r] += shift[r];
#pragma unroll
      for (int c = 0; c < kSide; ++c) tz[r][c] = e[r][c] != T(0) ? e[r][c] * (tz[r][c] - mean[r]) : T(0);
    }
  }
};

/// values *= rescale.
template <int kSums, typename T>
__device__ __forceinline__ void scale_rows(Tile<T> (&values)[kSums], const T (&rescale)[kSide]) {
#pragma unroll
  for (int n = 0; n < kSums * kSide; ++n) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) values[n / kSide][r][n % kSide] *= rescale[r];
  }
}

/// sums = rescale (sums - shift values), values *= rescale.
template <int kSums, typename T>
__device__ __forceinline__ void recentre(Tile<T> (&values)[kSums], Tile<T> (&sums)[kSums], const T (&rescale)[kSide],
                                         const T (&shift)[kSide]) {
#pragma unroll
  for (int n = 0; n < kSums * kSide; ++n) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      T &value = values[n / kSide][r][n % kSide], &sum = sums[n / kSide][r][n % kSide];
      sum = rescale[r] * (sum - shift[r] * value);
      value *= rescale[r];
    }
  }
}

/// A block of the passes that own 64 queries of a head and `width` columns of the result: grid (row tasks, heads * panels).
struct RowBlock {
  Head head;
  int first, column, count;
  Range keys;

  __device__ RowBlock(const Call& call, int panels, int width)
      : RowBlock(call, TaskBlock(call.row_tasks, call.row_task_count), panels, width) {}
  __device__ RowBlock(const Call& call, const TaskBlock& own, int panels, int width)
      : head(call.p, own.task.sequence, own.rest / panels), first(own.task.first), column(own.rest % panels * width) {
    count = tile_end(first, head.queries) - first;
    keys = key_range(call.p, head, first, first + count - 1);
    keys.begin -= keys.begin % kTile;
  }
  __device__ int64_t row() const { return head.first_row + first; }
  /// Whether this thread writes the statistics of its rows.
  __device__ bool writes_statistics() const { return column == 0 && thread_x() == 0; }
};

/// Blocks side by side that a result of `width` columns takes, with kSums times 64 each.
inline int panels_of(int64_t width, int sums = 1) { return static_cast<int>((width + sums * kTile - 1) / (sums * kTile)); }

/// A block has two sums of 64 columns where the result is wider than one, and registers hold them.
template <typename T>
bool has_two_sums(int64_t width) {
  return sizeof(T) == 4 && width > kTile;
}

}  // namespace deckle::kernels::cuda::general
