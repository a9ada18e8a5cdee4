// scatter_add: result = self, plus src[.., i, ..] at [.., index[.., i, ..], ..] along dim; scatter_sum: the same from zeros on.
//
// A lane (all dims but `dim`) belongs to one thread, which adds in float64 (integers: int64) in ascending order: bit-equal for
// any number of threads. Lanes that lie side by side in memory are taken up to 64 at a time; along the last dim there are none,
// and the sums of one lane stay in L1.
//
// [1024, 1024] of float32, two threads of an Emerald Rapids, us:                along the last dim   the first
//   elements widened and rounded one by one                                              921             2,944
//   in vectors; rows of indices fetched beforehand                                       706             1,689

#include <algorithm>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/lanes.h"
#include "deckle/kernels/cpu/index/rows.h"
#include "deckle/kernels/cpu/index/sums.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

constexpr int64_t kLine = 8, kMaxBlock = 64;  // lanes taken together: a cache line of int64 indices and more
constexpr int64_t kSums = 1 << 14;            // 128 KiB of sums stay in L2
constexpr int64_t kFew = 2;                   // as few indices: one for this many elements of a lane
constexpr int64_t kAhead = 8;                 // rows of indices that are fetched beforehand
constexpr int64_t kMaxSums = 1 << 17;         // 1 MiB per thread, unless a single lane is longer

int64_t lanes_together(int64_t side, int64_t rows) {
  const int64_t wanted = std::clamp(kSums / rows, kLine, kMaxBlock), possible = std::max<int64_t>(1, kMaxSums / rows);
  return std::min({side, wanted, possible});
}

/// Adjacent lanes, each of `rows` elements `stride` apart in the result, to `length` of which something is added.
struct Block {
  int64_t rows, length, width;
  int64_t index, src, result;                // where it starts
  int64_t index_stride, src_stride, stride;  // from one place of a lane to the next
};

/// body(place in the result, number of the sum) for every element of the block; a block of one lane is a plain loop.
template <typename Body>
void for_elements(const Block& block, const Body& body) {
  if (block.width == 1 && block.stride == 1) {
    for (int64_t row = 0; row < block.rows; ++row) body(block.result + row, row);
    return;
  }
  for (int64_t row = 0; row < block.rows; ++row) {
    for (int64_t lane = 0; lane < block.width; ++lane) body(block.result + row * block.stride + lane, row * block.width + lane);
  }
}

/// body(place in src, row, number of the sum) for every index of the block, in ascending order along its lanes.
template <typename Index, typename Body>
void for_indices(const Block& block, const Index* indices, const Body& body) {
  if (block.width == 1 && block.index_stride == 1 && block.src_stride == 1) {
    for (int64_t i = 0; i < block.length; ++i) {
      const auto row = static_cast<int64_t>(indices[block.index + i]);
      check_index(row, block.rows);
      body(block.src + i, row, row);
    }
    return;
  }
  for (int64_t i = 0; i < block.length; ++i) {
    const Index* const rows = indices + block.index + i * block.index_stride;
    if (block.width > 1) {  // rows lie apart, often each on a page of its own: no prefetcher follows
      __builtin_prefetch(rows + kAhead * block.index_stride);
      __builtin_prefetch(rows + kAhead * block.index_stride + kLine);
    }
    for (int64_t lane = 0; lane < block.width; ++lane) {
      const auto row = static_cast<int64_t>(rows[lane]);
      check_index(row, block.rows);
      body(block.src + i * block.src_stride + lane, row, row * block.width + lane);
    }
  }
}

/// Sums of all elements of the block.
template <typename T, typename Index>
void add_all(const Block& block, const T* start, const Index* indices, const T* added, SumOf<T>* sums, T* to) {
  const bool run = block.width == 1 && block.stride == 1;
  if (start == nullptr)
    std::fill_n(sums, block.rows * block.width, SumOf<T>{0});
  else if (run)
    widen_run(start + block.result, block.rows, sums);
  else
    for_elements(block, [=](int64_t at, int64_t k) { sums[k] = static_cast<SumOf<T>>(start[at]); });
  for_indices(block, indices, [=](int64_t from, int64_t, int64_t k) { sums[k] += static_cast<SumOf<T>>(added[from]); });
  if (run)
    round_run(sums, block.rows, to + block.result);
  else
    for_elements(block, [=](int64_t at, int64_t k) { to[at] = round_sum<T>(sums[k]); });
}

/// The same where few elements are added to: only their sums are taken.
template <typename T, typename Index>
void add_few(const Block& block, const T* start, const Index* indices, const T* added, SumOf<T>* sums, T* to) {
  if (start != nullptr)
    for_elements(block, [=](int64_t at, int64_t) { to[at] = start[at]; });
  else
    for_elements(block, [=](int64_t at, int64_t) { to[at] = T{}; });
  const auto place = [=](int64_t row, int64_t k) { return block.result + row * block.stride + k - row * block.width; };
  for_indices(block, indices, [=](int64_t, int64_t row, int64_t k) { sums[k] = static_cast<SumOf<T>>(to[place(row, k)]); });
  for_indices(block, indices, [=](int64_t from, int64_t, int64_t k) { sums[k] += static_cast<SumOf<T>>(added[from]); });
  for_indices(block, indices, [=](int64_t, int64_t row, int64_t k) { to[place(row, k)] = round_sum<T>(sums[k]); });
}

/// `start` is what the sums begin with, of the result's sizes; undefined: zeros.
template <typename T>
void scatter_of(const View& start, int64_t dim, const View& index, const View& src, const View& result) {
  const int64_t rows = result.ndim == 0 ? 1 : result.sizes[dim];
  const int64_t length = index.ndim == 0 ? 1 : index.sizes[dim];
  const Lanes<3> lanes(index, dim, {&index, &src, &result});
  const T* const from = start.defined ? start.ptr<const T>() : nullptr;
  const auto* added = src.ptr<const T>();
  auto* to = result.ptr<T>();

  // Lanes beyond the extent of index keep what they start with.
  const bool covers = index.numel() > 0 && lanes.count() * rows == result.numel();
  if (!covers && start.defined) std::copy_n(from, result.numel(), to);
  if (!covers && !start.defined) std::fill_n(to, result.numel(), round_sum<T>({}));
  if (index.numel() == 0) return;
  const int64_t side = lanes.side_by_side(), block = lanes_together(side, rows), blocks = (side + block - 1) / block;
  visit_index(index, [&](const auto* indices) {
    const int64_t bytes = block * (rows + length) * static_cast<int64_t>(sizeof(T));
    parallel_for(lanes.count() / side * blocks, grain_of(bytes), [&](int64_t first, int64_t last) {
      Scratch scratch;
      auto* const all = scratch.take<SumOf<T>>(block * rows);
      for (int64_t task = first; task < last; ++task) {
        const int64_t column = task % blocks * block;
        const auto [chosen, source, target] = lanes.offsets(task / blocks * side + column);
        const Block lane_block = {
            rows, length, std::min(block, side - column), chosen, source, target, lanes.along(0), lanes.along(1), lanes.along(2)};
        if (length * kFew < rows)
          add_few(lane_block, from, indices, added, all, to);
        else
          add_all(lane_block, from, indices, added, all, to);
      }
    });
  });
}

}  // namespace

// self and result are contiguous and of equal sizes, so they share offsets.
void scatter_add(const Context&, const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  if (self.numel() == 0) return;
  visit(result.dtype, [&]<typename T>(TypeTag<T>) { scatter_of<T>(self, dim, index, src, result); });
}

void scatter_sum(const Context&, const View& src, int64_t dim, const View& index, std::span<const int64_t>, const View& result) {
  if (result.numel() == 0) return;
  visit(result.dtype, [&]<typename T>(TypeTag<T>) { scatter_of<T>(View{}, dim, index, src, result); });
}

}  // namespace deckle::kernels::cpu
