#pragma once

// Scans along lines: running sums and extrema of dense dims and of the rows of components. A kind K has
//   Acc, start(), of(x, i)   what one element is; merge(a, b), associative, a's elements first
//   put(acc, row, column, length)   writes the result at a place
//
//   lines of few columns     a block a line: 256 threads take eight elements each, then the next 2,048
//   many columns             a thread a line, neighbouring threads neighbouring columns
// A line's elements are added in one order, which its length alone decides.
#include <cub/block/block_scan.cuh>

#include <cstdint>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::scan {

/// Line l is column l % inner of group l / inner; L says where a group's elements are: begin(group), length(group), and place(i),
/// the number of the row that the i-th of all rows is.
template <class L, class K, typename T>
__global__ void __launch_bounds__(256) by_columns(L lines, K kind, int64_t count, int64_t inner, bool reverse) {
  const int64_t line = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (line >= count) return;
  const int64_t group = line / inner, column = line - group * inner, begin = lines.begin(group), length = lines.length(group);
  typename K::Acc acc = kind.start();
  for (int64_t i = 0; i < length; ++i) {
    const int64_t row = lines.place(begin + (reverse ? length - 1 - i : i));
    acc = kind.merge(acc, kind.template of<T>(row, column));
    kind.put(acc, row, column);
  }
}

constexpr int kItems = 8;

template <class L, class K, typename T>
__global__ void __launch_bounds__(256) by_lines(L lines, K kind, int64_t inner, bool reverse) {
  using Acc = typename K::Acc;
  using Scan = cub::BlockScan<Acc, 256>;
  __shared__ typename Scan::TempStorage storage;
  const int64_t line = blockIdx.x, group = line / inner, column = line - group * inner, begin = lines.begin(group),
                length = lines.length(group);
  const auto merge = [kind](const Acc& a, const Acc& b) { return kind.merge(a, b); };
  Acc before = kind.start();
  for (int64_t first = 0; first < length; first += 256 * kItems) {
    const int64_t own = first + threadIdx.x * kItems;
    Acc part = kind.start();
    for (int k = 0; k < kItems && own + k < length; ++k) {
      const int64_t row = lines.place(begin + (reverse ? length - 1 - own - k : own + k));
      part = kind.merge(part, kind.template of<T>(row, column));
    }
    Acc preceding, all;
    Scan(storage).ExclusiveScan(part, preceding, kind.start(), merge, all);
    __syncthreads();
    Acc acc = kind.merge(before, preceding);
    for (int k = 0; k < kItems && own + k < length; ++k) {
      const int64_t row = lines.place(begin + (reverse ? length - 1 - own - k : own + k));
      acc = kind.merge(acc, kind.template of<T>(row, column));
      kind.put(acc, row, column);
    }
    before = kind.merge(before, all);
  }
}

/// Scans `groups` of `inner` columns each, `longest` elements at most; on the current device.
template <typename T, class L, class K>
void run(const Context& context, const L& lines, const K& kind, int64_t groups, int64_t inner, int64_t longest, bool reverse) {
  const int64_t count = groups * inner;
  if (count == 0 || longest == 0) return;
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  if (longest < 64 || (inner >= 32 && count >= 32768))
    by_columns<L, K, T><<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(lines, kind, count, inner, reverse);
  else
    by_lines<L, K, T><<<static_cast<unsigned>(count), 256, 0, stream>>>(lines, kind, inner, reverse);
  deckle::cuda::check_launch(context.device);
}

/// Where elements are read and written.
struct Elements {
  const void* from = nullptr;
  void* to = nullptr;
  DType from_dtype = DType::float32, to_dtype = DType::float32;
  int64_t from_row = 1, from_column = 1, to_row = 1, to_column = 1;  // strides
};

/// Running sums of doubles that carry their rounding errors.
struct CompensatedSum {
  struct Acc {
    double sum, error;
  };
  Elements elements;

  __device__ Acc start() const { return {0, 0}; }
  __device__ Acc single(double x) const { return {x, 0}; }
  __device__ double value(const Acc& acc) const { return acc.sum + acc.error; }
  template <typename T>
  __device__ Acc of(int64_t row, int64_t column) const {
    const int64_t at = row * elements.from_row + column * elements.from_column;
    return single(pointwise::load<double>(elements.from, elements.from_dtype, at));
  }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    const double next = a.sum + b.sum;
    const double lost = ::fabs(a.sum) >= ::fabs(b.sum) ? (a.sum - next) + b.sum : (b.sum - next) + a.sum;
    return {next, a.error + b.error + (lost == lost ? lost : 0)};  // an infinite sum loses NaN
  }
  __device__ void put(const Acc& acc, int64_t row, int64_t column) const {
    pointwise::store(value(acc), elements.to, elements.to_dtype, row * elements.to_row + column * elements.to_column);
  }
};

struct IntegerSum {
  using Acc = int64_t;
  Elements elements;

  __device__ Acc start() const { return 0; }
  __device__ Acc single(int64_t x) const { return x; }
  __device__ int64_t value(Acc acc) const { return acc; }
  template <typename T>
  __device__ Acc of(int64_t row, int64_t column) const {
    const int64_t at = row * elements.from_row + column * elements.from_column;
    return pointwise::load<int64_t>(elements.from, elements.from_dtype, at);
  }
  __device__ Acc merge(Acc a, Acc b) const { return static_cast<Acc>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
  __device__ void put(Acc acc, int64_t row, int64_t column) const {
    pointwise::store(acc, elements.to, elements.to_dtype, row * elements.to_row + column * elements.to_column);
  }
};

}  // namespace deckle::kernels::cuda::scan
