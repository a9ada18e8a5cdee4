// scatter_add: result = self, plus src[.., i, ..] at [.., index[.., i, ..], ..] along dim; scatter_sum: the same from zeros on.
//
// A lane (all dims but `dim`) belongs to one thread, which adds in float64 (integers: int64) in ascending order: bit-equal for
// any number of threads. Lanes that lie side by side in memory are taken up to 64 at a time; along the last dim there are none,
// and the sums of one lane stay in L1.
//
// [1024, 1024] of float32, two threads of an Emerald Rapids, us:                along the last dim   the first
//   elements widened and rounded one by one                                              921             2,944
//   in vectors; rows of indices fetched beforehand                                       706             1,689
// Along a dim of 64 with 8, 12, 16 and 32 lanes side by side, 2^20 float32 in all, one thread, us:
//   each row of indices checked by itself                                     2,283  2,054  1,802  1,590
//   those of some blocks at once                                              1,922  1,779  1,683  1,566
// Slower: the same along the last dim, 1.05 to 1.2 times. No faster: lanes of the first dim brought into rows of their own.
// [1024, 1024] of float16, one thread of a Zen 4 with others at work, us: 2,414 and 5,627, widened one by one; 1,778 and 5,014.
// An element to each column, as the gradient of max: 651 us where columns are cleared some at a time, 106 where all memory is.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/lanes.h"
#include "deckle/kernels/cpu/index/rows.h"
#include "deckle/kernels/cpu/index/sums.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

constexpr int64_t kLine = 8, kMaxBlock = 64;  // lanes taken together: a cache line of int64 indices and more
constexpr int64_t kSums = 1 << 14;            // 128 KiB of sums stay in L2
constexpr int64_t kFew = 2;                   // as few indices: one for this many elements of a lane
constexpr int64_t kFewIndices = 1024;         // of blocks that are checked together: 8 KiB stay in L1
constexpr int64_t kAhead = 8;                 // rows of indices that are fetched beforehand
constexpr int64_t kPiece = 1 << 15;           // elements copied by one thread
constexpr int64_t kWidened = 1 << 14;         // elements of float16 at a time: 64 KiB of float stay in L2
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
  bool checked;                              // its indices are

  Block once_checked() const {
    Block result = *this;
    result.checked = true;
    return result;
  }
};

/// body(place in the result, number of the sum, elements) for every run of the block: a lane alone, or a row of several.
template <typename Body>
void for_runs(const Block& block, const Body& body) {
  if (block.width == 1 && block.stride == 1) return body(block.result, int64_t{0}, block.rows);
  for (int64_t row = 0; row < block.rows; ++row) body(block.result + row * block.stride, row * block.width, block.width);
}

/// body(place in src, row, number of the sum) for every index of the block, in ascending order along its lanes.
template <typename Index, typename Body>
void for_indices(const Block& block, const Index* indices, const Body& body) {
  if (block.width == 1 && block.index_stride == 1 && block.src_stride == 1) {
    if (!block.checked) check_run(indices + block.index, block.length, block.rows);
    for (int64_t i = 0; i < block.length; ++i) {
      const auto row = static_cast<int64_t>(indices[block.index + i]);
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
    if (!block.checked) check_run(rows, block.width, block.rows);
    for (int64_t lane = 0; lane < block.width; ++lane) {
      const auto row = static_cast<int64_t>(rows[lane]);
      body(block.src + i * block.src_stride + lane, row, row * block.width + lane);
    }
  }
}

/// What is added, as it lies; of float16, whose elements cost as much one by one as all the rest, as float in `buffer`, some
/// places of the lanes at a time: body(block of it, elements).
template <typename T, typename Body>
void with_added(const Block& block, const T* added, float* buffer, const Body& body) {
  if constexpr (std::is_same_v<T, float16>) {
    const int64_t most = kWidened / block.width;
    for (int64_t first = 0; first < block.length; first += most) {
      const T* const from = added + block.src + first * block.src_stride;
      Block packed = block;
      packed.index += first * block.index_stride;
      packed.length = std::min(most, block.length - first);
      packed.src = 0, packed.src_stride = block.width;
      if (block.width == 1) {
        simd::load_run(from, DType::float16, block.src_stride, packed.length, buffer);
      } else {
        for (int64_t i = 0; i < packed.length; ++i)
          simd::load_run(from + i * block.src_stride, DType::float16, 1, block.width, buffer + i * block.width);
      }
      body(packed, buffer);
    }
  } else {
    body(block, added);
  }
}

/// Sums of all elements of the block.
template <typename T, typename Index>
void add_all(const Block& block, const T* start, const Index* indices, const T* added, float* buffer, SumOf<T>* sums, T* to) {
  if (start == nullptr)
    std::fill_n(sums, block.rows * block.width, SumOf<T>{0});
  else
    for_runs(block, [=](int64_t at, int64_t k, int64_t count) { widen_run(start + at, count, sums + k); });
  with_added(block, added, buffer, [=](const Block& of, const auto* values) {
    for_indices(of, indices, [=](int64_t from, int64_t, int64_t k) { sums[k] += static_cast<SumOf<T>>(values[from]); });
  });
  for_runs(block, [=](int64_t at, int64_t k, int64_t count) { round_run(sums + k, count, to + at); });
}

/// The same where few elements are added to: only their sums are taken; the result has what the others start with.
template <typename T, typename Index>
void add_few(const Block& block, const Index* indices, const T* added, SumOf<T>* sums, T* to) {
  const auto place = [=](int64_t row, int64_t k) { return block.result + row * block.stride + k - row * block.width; };
  for_indices(block, indices, [=](int64_t, int64_t row, int64_t k) { sums[k] = static_cast<SumOf<T>>(to[place(row, k)]); });
  const Block known = block.once_checked();
  for_indices(known, indices, [=](int64_t from, int64_t, int64_t k) { sums[k] += static_cast<SumOf<T>>(added[from]); });
  for_indices(known, indices, [=](int64_t, int64_t row, int64_t k) { to[place(row, k)] = round_sum<T>(sums[k]); });
}

/// What the sums begin with, in the order of memory; `from` may be null: zeros.
template <typename T>
void begin_with(const T* from, int64_t count, T* to) {
  parallel_for(count, kPiece, [&](int64_t begin, int64_t end) {
    const auto bytes = static_cast<size_t>(end - begin) * sizeof(T);
    if (from != nullptr)
      std::memcpy(static_cast<void*>(to + begin), from + begin, bytes);
    else
      std::memset(static_cast<void*>(to + begin), 0, bytes);
  });
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

  // Lanes beyond the extent of index keep what they start with, and of others most elements, where few are added to.
  const bool few = length * kFew < rows;
  const bool covers = index.numel() > 0 && lanes.count() * rows == result.numel();
  if (few || !covers) begin_with(from, result.numel(), to);
  if (index.numel() == 0) return;
  const int64_t side = lanes.side_by_side(), block = lanes_together(side, rows), blocks = (side + block - 1) / block;
  // Where rows of a block are short, and its indices one run of memory, those of some blocks are checked at once.
  const bool in_runs =
      dim == index.ndim - 2 && side == index.sizes[dim + 1] && blocks == 1 && side * length <= kFewIndices && index.contiguous();
  const int64_t group = std::max<int64_t>(1, kFewIndices / (side * length));
  visit_index(index, [&](const auto* indices) {
    const int64_t bytes = block * (rows + length) * static_cast<int64_t>(sizeof(T));
    parallel_for(lanes.count() / side * blocks, grain_of(bytes), [&](int64_t first, int64_t last) {
      Scratch scratch;
      auto* const all = scratch.take<SumOf<T>>(block * rows);
      auto* const buffer = std::is_same_v<T, float16> && !few ? scratch.take<float>(std::min(block * length, kWidened)) : nullptr;
      for (int64_t task = first; task < last; ++task) {
        if (in_runs && (task - first) % group == 0)
          check_run(indices + task * side * length, std::min(group, last - task) * side * length, rows);
        const int64_t column = task % blocks * block;
        const auto [chosen, source, target] = lanes.offsets(task / blocks * side + column);
        const Block lane_block = {
            rows,           length, std::min(block, side - column), chosen, source, target, lanes.along(0), lanes.along(1),
            lanes.along(2), in_runs};
        if (few)
          add_few(lane_block, indices, added, all, to);
        else
          add_all(lane_block, from, indices, added, buffer, all, to);
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
