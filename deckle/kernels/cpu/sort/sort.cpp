// values, indices = self sorted along dim, stable; NaN counts as larger than everything. topk: the first k of them.
//
// O(n log n) comparisons per lane, topk O(n + k log k). Keys are float32 for halves, int64 for all integers: three instances.
// Where lanes are not contiguous, sixteen that lie side by side are transposed, so that every cache line is read once.

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/sort/lane.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kGrain = 4096;  // elements per parallel range

/// choose(sorter, lane, order) sets the `kept` places of each lane of dim, of `length` elements.
template <typename T, typename Choose>
void order_lanes(const View& self, int64_t dim, int64_t length, int64_t kept, const View& values, const View& indices,
                 const Choose& choose) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < self.ndim; ++i) {
    if (i != dim) (i < dim ? outer : inner) *= self.sizes[i];
  }
  const int64_t block = std::min(inner, kLanes), blocks = block == 0 ? 0 : (inner + block - 1) / block;
  const T* const all = self.ptr<const T>();
  parallel_for(outer * blocks, 1 + kGrain / (block * length + 1), [&](int64_t begin, int64_t end) {
    LaneSorter<SortKey<T>> sorter;
    Scratch scratch;
    auto* const places = scratch.take<int64_t>(block * kept);
    auto* const keys = scratch.take<SortKey<T>>(inner == 1 ? 0 : block * length);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % blocks * block, width = std::min(block, inner - column);
      const T* const from = all + task / blocks * length * inner + column;
      T* const to = values.ptr<T>() + task / blocks * kept * inner + column;
      int64_t* const order = indices.ptr<int64_t>() + task / blocks * kept * inner + column;
      if (inner == 1) {
        choose(sorter, from, places);
      } else {
        for (int64_t i = 0; i < length; ++i) {
          for (int64_t lane = 0; lane < width; ++lane) keys[lane * length + i] = static_cast<SortKey<T>>(from[i * inner + lane]);
        }
        for (int64_t lane = 0; lane < width; ++lane) choose(sorter, keys + lane * length, places + lane * kept);
      }
      for (int64_t i = 0; i < kept; ++i) {
        for (int64_t lane = 0; lane < width; ++lane) {
          const int64_t place = places[lane * kept + i];
          to[i * inner + lane] = from[place * inner + lane];
          order[i * inner + lane] = place;
        }
      }
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
