// values, indices = self sorted along dim, stable; NaN counts as larger than everything. topk: the first k of them.
//
// O(n log n) comparisons per lane, topk O(n + k log k). Keys are float32 for halves, int64 for all integers: three instances.
// Where lanes are not contiguous, those of two cache lines side by side are transposed, and so are their results.
//
// [1024, 1024], two threads of an Emerald Rapids, us; 10 of a row, of a column, half of a row:
//                                                            float32: row  column    half     int64: half
//   the k-th of those so far, kept by nth_element; 16 lanes     2,518    4,833  18,198          25,526
//   a sorted list, skipping by vectors; the first buckets         984    1,154   5,193           2,916
// Sorted columns take 9,525 in place of 15,344 (int64: 5,329 in place of 9,733).

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/transpose.h"
#include "deckle/kernels/cpu/sort/lane.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kLineBytes = 128;      // of lanes taken together: two cache lines
constexpr int64_t kMostItems = 1 << 17;  // of them, unless eight have more
constexpr int64_t kGrain = 4096;         // elements per parallel range

/// Elements that are only moved.
template <typename T>
using Item =
    std::conditional_t<sizeof(T) == 1, uint8_t,
                       std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

/// choose(sorter, keys of a lane, order) sets the `kept` places of each lane of dim, of `length` elements.
template <typename T, typename Choose>
void order_lanes(const View& self, int64_t dim, int64_t length, int64_t kept, const View& values, const View& indices,
                 const Choose& choose) {
  using Key = SortKey<T>;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < self.ndim; ++i) {
    if (i != dim) (i < dim ? outer : inner) *= self.sizes[i];
  }
  // As wide as two cache lines, but cut into some tasks, and of long lanes fewer.
  const int64_t wide = std::min(kLineBytes / int64_t{sizeof(T)}, std::max<int64_t>(16, inner / 8));
  const int64_t block = std::min({inner, wide, std::max<int64_t>(8, kMostItems / std::max<int64_t>(length, 1))});
  const int64_t blocks = block == 0 ? 0 : (inner + block - 1) / block;
  const auto* const all = static_cast<const Item<T>*>(self.data);
  parallel_for(outer * blocks, 1 + kGrain / (block * length + 1), [&](int64_t begin, int64_t end) {
    LaneSorter<Key> sorter;
    Scratch scratch;
    const int64_t moved = inner == 1 ? 0 : block;  // lanes that pass through memory of their own
    auto* const lanes = scratch.take<Item<T>>(moved * length);
    auto* const chosen = scratch.take<Item<T>>(moved * kept);
    auto* const places = scratch.take<int64_t>(moved * kept);
    Key* const keys = std::is_same_v<T, Key> ? nullptr : scratch.take<Key>(length);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % blocks * block, width = std::min(block, inner - column);
      const Item<T>* const from = all + task / blocks * length * inner + column;
      const int64_t start = task / blocks * kept * inner + column;
      auto* const to = static_cast<Item<T>*>(values.data) + start;
      int64_t* const order = indices.ptr<int64_t>() + start;
      if (inner > 1) simd::transpose(from, inner, length, width, lanes, length);
      for (int64_t lane = 0; lane < width; ++lane) {
        const Item<T>* const x = inner == 1 ? from : lanes + lane * length;
        int64_t* const at = inner == 1 ? order : places + lane * kept;
        Item<T>* const picked = inner == 1 ? to : chosen + lane * kept;
        if constexpr (std::is_same_v<T, Key>) {
          choose(sorter, reinterpret_cast<const Key*>(x), at);
        } else {
          simd::load_run(x, self.dtype, 1, length, keys);
          choose(sorter, keys, at);
        }
        for (int64_t i = 0; i < kept; ++i) picked[i] = x[at[i]];
      }
      if (inner == 1) continue;
      simd::transpose(chosen, kept, width, kept, to, inner);
      simd::transpose(reinterpret_cast<const uint64_t*>(places), kept, width, kept, reinterpret_cast<uint64_t*>(order), inner);
    }
  });
}

int64_t length_of(const View& self, int64_t dim) {
  const int64_t length = self.ndim == 0 ? 1 : self.sizes[dim];
  check(length < int64_t{1} << 32, "dim {} has {} elements (expected fewer than 2^32)", dim, length);
  return length;
}

}  // namespace

void sort(const Context&, const View& self, int64_t dim, bool descending, const View& values, const View& indices) {
  const int64_t length = length_of(self, dim);
  visit(self.dtype, [&]<typename T>(TypeTag<T>) {
    order_lanes<T>(self, dim, length, length, values, indices,
                   [&](auto& sorter, const auto* lane, int64_t* order) { sorter.sort(lane, length, descending, order); });
  });
}

void topk(const Context&, const View& self, int64_t k, int64_t dim, bool largest, const View& values, const View& indices) {
  if (k == 0) return;
  const int64_t length = length_of(self, dim);
  visit(self.dtype, [&]<typename T>(TypeTag<T>) {
    order_lanes<T>(self, dim, length, k, values, indices,
                   [&](auto& sorter, const auto* lane, int64_t* order) { sorter.select(lane, length, k, largest, order); });
  });
}

}  // namespace deckle::kernels::cpu
