// scatter: result = self, with src[.., i, ..] written at [.., index[.., i, ..], ..] along dim, in the order of i, so that
// of several written to one place the last stays. scatter_zero: the same with zeros for src. scatter_backward: for each element
// of src the gradient of the place that it was written to, 0 where another was written later or where index does not reach.
//
// A lane (all dims but `dim`) belongs to one thread, which takes its indices in ascending order: no result depends on the number
// of threads. Along the last dim a lane is a plain loop; where lanes lie side by side in memory, some are brought into rows of
// their own and back (lane_rows.h), or, of few indices, taken up to 64 at a time. Memory-bound: an index and an element each are
// read, an element written.
//
// [1024, 1024] of float32, two threads of an Emerald Rapids, us:                       scatter   its gradient
//   all of self copied first; a branch on whether an element stayed                        966        6,496
//   each lane copied just before it is written to; a mask in place of the branch           712        1,918
// Along the first dim:
//   64 lanes at a time, where they lie                                                   4,175        8,232
//   up to 64 in rows of their own                                                        2,419        4,451

#include <algorithm>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cpu/index/lane_rows.h"
#include "deckle/kernels/cpu/index/lanes.h"
#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

constexpr int64_t kMaxBlock = 64;        // lanes taken together
constexpr int64_t kCached = 1 << 20;     // bytes
constexpr int64_t kFew = 4;              // as few indices: one for this many elements of a lane
constexpr int64_t kAhead = 8;            // rows of indices that are fetched beforehand
constexpr int64_t kElements = 1 << 13;   // of lanes, of one range
constexpr int64_t kPiece = 1 << 15;      // elements copied by one thread
constexpr int64_t kMaxPlaces = 1 << 16;  // whose last writers are kept at a time, unless a lane has more

/// body(places of the first elements, lanes) for blocks of lanes side by side, in parallel; `length`: elements that one touches.
template <size_t kViews, typename Body>
void for_blocks(const Lanes<kViews>& lanes, int64_t block, int64_t length, const Body& body) {
  const int64_t side = lanes.side_by_side(), wide = std::min(side, block), blocks = (side + wide - 1) / wide;
  parallel_for(lanes.count() / side * blocks, 1 + kElements / (wide * length + 1), [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t column = task % blocks * wide;
      body(lanes.offsets(task / blocks * side + column), std::min(wide, side - column));
    }
  });
}

/// How many lanes are brought into rows, each with an index and an element for each of `length` and an element for each of
/// `rows`, `stride` apart; 0: none are, for caches hold them as they lie, or few are read or written.
template <typename T, typename Index, size_t kViews>
int64_t in_rows(const Lanes<kViews>& lanes, const Index*, int64_t length, int64_t rows, int64_t stride) {
  const auto index_bytes = static_cast<int64_t>(sizeof(Index)), item = static_cast<int64_t>(sizeof(T));
  if (length * kFew < rows || rows * stride * item < kCached) return 0;
  return lanes_in_rows(lanes.side_by_side(), length * (index_bytes + item) + rows * item);
}

/// A src that is not defined is zeros.
template <typename T>
void scatter_of(const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  const T* const kept = static_cast<const T*>(self.data);
  T* const to = static_cast<T*>(result.data);
  const int64_t count = result.numel();
  const Lanes<3> lanes(index, dim, {&result, &index, src.defined ? &src : &index});
  const int64_t length = index.ndim == 0 ? 1 : index.sizes[dim], rows = result.ndim == 0 ? 1 : result.sizes[dim];
  const int64_t in_result = lanes.along(0), in_index = lanes.along(1), in_src = lanes.along(2);
  const auto copy_all = [&] {
    parallel_for(count, kPiece, [&](int64_t begin, int64_t end) { std::copy(kept + begin, kept + end, to + begin); });
  };
  if (index.numel() == 0) return copy_all();
  const bool covers = lanes.count() * rows == count;
  const T* const from = src.defined ? static_cast<const T*>(src.data) : nullptr;
  visit_index(index, [&]<typename Index>(const Index* indices) {
    if (const int64_t together = in_rows<T>(lanes, indices, length, rows, in_result); together > 0) {
      if (!covers) copy_all();
      for_blocks(lanes, together, length + rows, [&](const auto& starts, int64_t width) {
        const auto [target, chosen, source] = starts;
        Scratch scratch;
        Index* const places = scratch.take<Index>(length * width);
        T* const written = from == nullptr ? nullptr : scratch.take<T>(length * width);
        T* const own = scratch.take<T>(rows * width);
        rows_of_lanes(indices + chosen, in_index, length, width, places);
        check_run(places, length * width, rows);
        if (from != nullptr) rows_of_lanes(from + source, in_src, length, width, written);
        rows_of_lanes(kept + target, in_result, rows, width, own);
        for (int64_t lane = 0; lane < width; ++lane) {
          const Index* const place = places + lane * length;
          T* const lane_to = own + lane * rows;
          for (int64_t i = 0; i < length; ++i)
            lane_to[static_cast<int64_t>(place[i])] = from == nullptr ? T{} : written[lane * length + i];
        }
        lanes_of_rows(own, rows, width, to + target, in_result);
      });
      return;
    }
    // Single lanes are copied just before they are written to.
    const bool by_lanes = covers && lanes.side_by_side() == 1 && in_result == 1;
    if (!by_lanes) copy_all();
    for_blocks(lanes, kMaxBlock, length + rows, [&](const auto& starts, int64_t width) {
      const auto [target, chosen, source] = starts;
      if (by_lanes) std::copy_n(kept + target, rows, to + target);
      if (width == 1 && in_index == 1) {
        check_run(indices + chosen, length, rows);
        for (int64_t i = 0; i < length; ++i) {
          const int64_t at = target + static_cast<int64_t>(indices[chosen + i]) * in_result;
          to[at] = from == nullptr ? T{} : from[source + i * in_src];
        }
        return;
      }
      for (int64_t i = 0; i < length; ++i) {
        const auto* const places = indices + chosen + i * in_index;
        if (width > 1) __builtin_prefetch(places + kAhead * in_index);
        check_run(places, width, rows);
        for (int64_t lane = 0; lane < width; ++lane)
          to[target + static_cast<int64_t>(places[lane]) * in_result + lane] =
              from == nullptr ? T{} : from[source + i * in_src + lane];
      }
    });
  });
}

template <typename T>
void winners_of(const View& gradient, int64_t dim, const View& index, const View& result) {
  T* const to = static_cast<T*>(result.data);
  if (index.numel() != result.numel()) std::fill_n(to, result.numel(), T{});
  if (index.numel() == 0) return;
  const Lanes<3> lanes(index, dim, {&result, &index, &gradient});
  const int64_t length = index.ndim == 0 ? 1 : index.sizes[dim], rows = gradient.ndim == 0 ? 1 : gradient.sizes[dim];
  const int64_t in_result = lanes.along(0), in_index = lanes.along(1), in_gradient = lanes.along(2);
  const T* const from = static_cast<const T*>(gradient.data);
  const int64_t block = std::clamp<int64_t>(kMaxPlaces / rows, 1, kMaxBlock);
  visit_index(index, [&]<typename Index>(const Index* indices) {
    if (const int64_t together = in_rows<T>(lanes, indices, length, rows, in_gradient); together > 0) {
      for_blocks(lanes, together, length + rows, [&](const auto& starts, int64_t width) {
        const auto [target, chosen, source] = starts;
        Scratch scratch;
        Index* const places = scratch.take<Index>(length * width);
        T* const gradients = scratch.take<T>(rows * width);
        T* const own = scratch.take<T>(length * width);
        auto* const last = scratch.take<int64_t>(rows);
        rows_of_lanes(indices + chosen, in_index, length, width, places);
        check_run(places, length * width, rows);
        rows_of_lanes(from + source, in_gradient, rows, width, gradients);
        for (int64_t lane = 0; lane < width; ++lane) {
          const Index* const place = places + lane * length;
          for (int64_t i = 0; i < length; ++i) last[static_cast<int64_t>(place[i])] = i;
          for (int64_t i = 0; i < length; ++i) {
            const auto row = static_cast<int64_t>(place[i]);
            const T kept = static_cast<T>(-static_cast<T>(last[row] == i));  // all ones, or none: no branch
            own[lane * length + i] = static_cast<T>(gradients[lane * rows + row] & kept);
          }
        }
        lanes_of_rows(own, length, width, to + target, in_result);
      });
      return;
    }
    for_blocks(lanes, block, length + rows, [&](const auto& starts, int64_t width) {
      const auto [target, chosen, source] = starts;
      Scratch scratch;
      auto* const last = scratch.take<int64_t>(rows * width);  // of each place that is written: which element stays there
      for (int64_t i = 0; i < length; ++i) {
        const auto* const places = indices + chosen + i * in_index;
        if (width > 1) __builtin_prefetch(places + kAhead * in_index);
        for (int64_t lane = 0; lane < width; ++lane) {
          const auto row = static_cast<int64_t>(places[lane]);
          check_index(row, rows);
          last[row * width + lane] = i;
        }
      }
      for (int64_t i = 0; i < length; ++i) {
        const auto* const places = indices + chosen + i * in_index;
        for (int64_t lane = 0; lane < width; ++lane) {
          const auto row = static_cast<int64_t>(places[lane]);
          const T kept = static_cast<T>(-static_cast<T>(last[row * width + lane] == i));  // all ones, or none: no branch
          to[target + i * in_result + lane] = static_cast<T>(from[source + row * in_gradient + lane] & kept);
        }
      }
    });
  });
}

}  // namespace

void scatter(const Context&, const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  if (self.numel() == 0) return;
  visit_item(self.dtype, [&]<typename T>(TypeTag<T>) { scatter_of<T>(self, dim, index, src, result); });
}

void scatter_zero(const Context&, const View& self, int64_t dim, const View& index, const View& result) {
  if (self.numel() == 0) return;
  visit_item(self.dtype, [&]<typename T>(TypeTag<T>) { scatter_of<T>(self, dim, index, View{}, result); });
}

void scatter_backward(const Context&, const View& gradient, int64_t dim, const View& index, std::span<const int64_t>,
                      const View& result) {
  if (result.numel() == 0) return;
  visit_item(result.dtype, [&]<typename T>(TypeTag<T>) { winners_of<T>(gradient, dim, index, result); });
}

}  // namespace deckle::kernels::cpu
