#pragma once

// Scans of rows whose elements lie one behind another. A block reads 2,048 elements, neighbouring threads neighbouring ones, into
// shared memory, where a thread takes eight in a row; sums of threads before it come by shuffles, those of warps before it
// through shared memory.
//
//   short rows    1 to 32 threads a row, of so many elements that 32 take up to 256 at once, as many rows as a block holds
//   long rows     a block a row
//   few long ones several blocks a row: they add up its parts, then scan them, each behind the sum of the parts before it
//   bytes         r read and w written, the floor; of rows in parts 2 r + w
// The order of a row's sums depends on the shape alone.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/reduce/problem.cuh"
#include "deckle/kernels/cuda/reduce/scan.cuh"

namespace deckle::kernels::cuda::scan {

constexpr int kRowThreads = 256, kRowItems = 8, kTile = kRowThreads * kRowItems, kRowWarps = kRowThreads / 32;

struct RowScan {
  reduce::Places from, to;  // of the rows' first elements
  int64_t rows, length;
  int64_t parts, part_length;
  bool reverse;

  __device__ int64_t at(int64_t i) const { return reverse ? length - 1 - i : i; }
};

/// Eight elements each in a row for threads, without conflicts of banks.
__device__ __forceinline__ int slot(int i) { return i + i / kRowItems; }
template <typename T>
using Tile = T[kTile + kTile / kRowItems];

__device__ __forceinline__ int64_t shuffle_up(int64_t x, int lanes) { return __shfl_up_sync(~0u, x, lanes); }
__device__ __forceinline__ CompensatedSum::Acc shuffle_up(const CompensatedSum::Acc& x, int lanes) {
  return {__shfl_up_sync(~0u, x.sum, lanes), __shfl_up_sync(~0u, x.error, lanes)};
}
__device__ __forceinline__ int64_t shuffle_from(int64_t x, int lane) { return __shfl_sync(~0u, x, lane); }
__device__ __forceinline__ CompensatedSum::Acc shuffle_from(const CompensatedSum::Acc& x, int lane) {
  return {__shfl_sync(~0u, x.sum, lane), __shfl_sync(~0u, x.error, lane)};
}

/// The threads' elements k * 256 + thread below `count`, which lie at place(that): all loads before the first use.
template <typename T, typename Place>
__device__ void load_tile(const Elements& elements, int count, const Place& place, T (&x)[kRowItems]) {
  pointwise::visit_element(elements.from_dtype, [&]<typename E>(TypeTag<E>) {
    using Number = std::conditional_t<pointwise::kIsHalf<E>, float, T>;
#pragma unroll
    for (int k = 0; k < kRowItems; ++k) {
      const int i = k * kRowThreads + static_cast<int>(threadIdx.x);
      x[k] = i < count ? static_cast<T>(static_cast<Number>(static_cast<const E*>(elements.from)[place(i)])) : T(0);
    }
  });
}

/// kRowItems elements of each thread, `count` of them: what comes before them is `before`.
template <class K, typename T>
__device__ void scan_own(const K& kind, T* tile, int own, int count, typename K::Acc before) {
  for (int k = 0; k < count; ++k) {
    before = kind.merge(before, kind.single(tile[slot(own + k)]));
    tile[slot(own + k)] = kind.value(before);
  }
}
template <class K, typename T>
__device__ typename K::Acc sum_own(const K& kind, const T* tile, int own, int count) {
  typename K::Acc sum = kind.start();
  for (int k = 0; k < count; ++k) sum = kind.merge(sum, kind.single(tile[slot(own + k)]));
  return sum;
}

/// With what the `lanes` threads of its group up to it have.
template <class K>
__device__ typename K::Acc scan_lanes(const K& kind, typename K::Acc sum, int lane, int lanes) {
  for (int distance = 1; distance < lanes; distance *= 2) {
    const typename K::Acc other = shuffle_up(sum, distance);
    if (lane >= distance) sum = kind.merge(other, sum);
  }
  return sum;
}

/// `lanes` threads a row, a power of two up to 32; 256 / lanes rows a block.
template <class K, typename T>
__global__ void __launch_bounds__(kRowThreads) scan_short_rows(const __grid_constant__ RowScan scan, K kind, int lanes) {
  using Acc = typename K::Acc;
  __shared__ Tile<T> tile;
  const int each = kRowThreads / lanes, width = lanes * kRowItems, thread = static_cast<int>(threadIdx.x), lane = thread % lanes;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * each;
  const auto rows = static_cast<int>(min(static_cast<int64_t>(each), scan.rows - first_row));
  Acc before = kind.start();
  for (int64_t first = 0; first < scan.length; first += width) {
    const auto span = static_cast<int>(min(static_cast<int64_t>(width), scan.length - first));
    const int count = rows * span;
    T x[kRowItems];
    load_tile(
        kind.elements, count, [&](int i) { return scan.from.offset(first_row + i / span) + scan.at(first + i % span); }, x);
#pragma unroll
    for (int k = 0; k < kRowItems; ++k) {
      const int i = k * kRowThreads + thread;
      if (i < count) tile[slot(i / span * width + i % span)] = x[k];
    }
    __syncthreads();
    const int own = thread * kRowItems, mine = thread / lanes < rows ? min(max(span - lane * kRowItems, 0), kRowItems) : 0;
    const Acc sum = scan_lanes(kind, sum_own(kind, tile, own, mine), lane, lanes);
    const Acc preceding = shuffle_up(sum, 1), all = shuffle_from(sum, thread % 32 - lane + lanes - 1);
    scan_own(kind, tile, own, mine, lane == 0 ? before : kind.merge(before, preceding));
    before = kind.merge(before, all);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kRowItems; ++k) {
      const int i = k * kRowThreads + thread;
      if (i >= count) continue;
      const int row = i / span, column = i % span;
      pointwise::store(tile[slot(row * width + column)], kind.elements.to, kind.elements.to_dtype,
                       scan.to.offset(first_row + row) + scan.at(first + column));
    }
    __syncthreads();
  }
}

/// What the threads before this one have, merged, and what all have.
template <class K>
__device__ typename K::Acc scan_block(const K& kind, const typename K::Acc& own, typename K::Acc* of_warps,
                                      typename K::Acc& all) {
  using Acc = typename K::Acc;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  const Acc sum = scan_lanes(kind, own, lane, 32), preceding = shuffle_up(sum, 1);
  if (lane == 31) of_warps[thread / 32] = sum;
  __syncthreads();
  Acc before = kind.start();
  all = kind.start();
  for (int warp = 0; warp < kRowWarps; ++warp) {
    if (warp == thread / 32) before = all;
    all = kind.merge(all, of_warps[warp]);
  }
  return lane == 0 ? before : kind.merge(before, preceding);
}

/// A block adds up a part of a row: the last one's sum nobody needs.
template <class K, typename T>
__global__ void __launch_bounds__(kRowThreads) sum_parts(const __grid_constant__ RowScan scan, K kind, typename K::Acc* sums) {
  using Acc = typename K::Acc;
  __shared__ Acc shared[kRowThreads];
  const int64_t row = blockIdx.x / scan.parts, part = blockIdx.x % scan.parts;
  const int64_t begin = part * scan.part_length, end = min(begin + scan.part_length, scan.length), start = scan.from.offset(row);
  if (part + 1 == scan.parts) return;
  Acc acc = kind.start();
  for (int64_t first = begin; first < end; first += kTile) {
    const auto count = static_cast<int>(min(static_cast<int64_t>(kTile), end - first));
    T x[kRowItems];
    load_tile(
        kind.elements, count, [&](int i) { return start + scan.at(first + i); }, x);
#pragma unroll
    for (int k = 0; k < kRowItems; ++k) acc = kind.merge(acc, kind.single(x[k]));  // 0 where there is none
  }
  acc = reduce::merge_threads<K, kRowThreads>(kind, acc, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = acc;
}

/// A block scans a row, or a part of it.
template <class K, typename T>
__global__ void __launch_bounds__(kRowThreads)
    scan_long_rows(const __grid_constant__ RowScan scan, K kind, const typename K::Acc* sums) {
  using Acc = typename K::Acc;
  __shared__ Tile<T> tile;
  __shared__ Acc of_warps[kRowWarps];
  const int thread = static_cast<int>(threadIdx.x), own = thread * kRowItems;
  const int64_t row = blockIdx.x / scan.parts, part = blockIdx.x % scan.parts;
  const int64_t begin = part * scan.part_length, end = min(begin + scan.part_length, scan.length);
  const int64_t from = scan.from.offset(row), to = scan.to.offset(row);
  Acc before = kind.start();
  if (part > 0) {  // a thread takes neighbours
    const int64_t each = (part + kRowThreads - 1) / kRowThreads;
    Acc sum = kind.start();
    for (int64_t i = thread * each; i < min((thread + 1) * each, part); ++i) sum = kind.merge(sum, sums[row * scan.parts + i]);
    scan_block(kind, sum, of_warps, before);
    __syncthreads();
  }
  for (int64_t first = begin; first < end; first += kTile) {
    const auto count = static_cast<int>(min(static_cast<int64_t>(kTile), end - first));
    T x[kRowItems];
    load_tile(
        kind.elements, count, [&](int i) { return from + scan.at(first + i); }, x);
#pragma unroll
    for (int k = 0; k < kRowItems; ++k) tile[slot(k * kRowThreads + thread)] = x[k];
    __syncthreads();
    const int mine = min(max(count - own, 0), kRowItems);
    Acc all;
    const Acc preceding = scan_block(kind, sum_own(kind, tile, own, mine), of_warps, all);
    scan_own(kind, tile, own, mine, kind.merge(before, preceding));
    before = kind.merge(before, all);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kRowItems; ++k) {  // those places of the tile that this thread fills next
      const int i = k * kRowThreads + thread;
      if (i < count) pointwise::store(tile[slot(i)], kind.elements.to, kind.elements.to_dtype, to + scan.at(first + i));
    }
  }
}

/// Parts of a row: for the blocks that reside at once on a large GPU, none shorter than four tiles.
inline int64_t parts_of(int64_t rows, int64_t length) {
  return std::clamp<int64_t>(std::min(1024 / rows, length / (4 * kTile)), 1, 512);
}

/// Scans rows of `scan`, whose elements are kind.elements; on the current device.
template <typename T, class K>
void run_rows(const Context& context, RowScan scan, const K& kind) {
  using Acc = typename K::Acc;
  if (scan.rows == 0 || scan.length == 0) return;
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  if (scan.length <= 256 || (scan.length <= kTile && scan.rows >= 8192)) {
    const auto threads = std::bit_ceil(static_cast<uint64_t>((scan.length + kRowItems - 1) / kRowItems));
    const int lanes = static_cast<int>(std::min<uint64_t>(threads, 32));
    const int64_t each = kRowThreads / lanes, blocks = (scan.rows + each - 1) / each;
    scan_short_rows<K, T><<<static_cast<unsigned>(blocks), kRowThreads, 0, stream>>>(scan, kind, lanes);
    deckle::cuda::check_launch(context.device);
    return;
  }
  scan.parts = parts_of(scan.rows, scan.length);
  scan.part_length = ((scan.length + scan.parts - 1) / scan.parts + kTile - 1) / kTile * kTile;
  const deckle::cuda::Block memory(scan.parts > 1 ? scan.rows * scan.parts * static_cast<int64_t>(sizeof(Acc)) : 0,
                                   context.device);
  const auto blocks = static_cast<unsigned>(scan.rows * scan.parts);
  if (scan.parts > 1) sum_parts<K, T><<<blocks, kRowThreads, 0, stream>>>(scan, kind, memory.as<Acc>());
  scan_long_rows<K, T><<<blocks, kRowThreads, 0, stream>>>(scan, kind, memory.as<Acc>());
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda::scan
