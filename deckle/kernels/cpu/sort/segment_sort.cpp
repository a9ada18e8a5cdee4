// The rows of each component sorted column by column, stable, and the row that each value came from.    values: [rows, inner]
//
// O(L log L) comparisons per column of a component of length L. Eight columns at a time are transposed into lanes, so that every
// cache line is read once. Keys are float32 for halves, int64 for all integers: three instances.

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/sort/lane.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kLanes = 8;      // columns per task: half a cache line of float32
constexpr int64_t kGrain = 16384;  // elements per parallel range

template <typename T>
void sort_columns(const T* x, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t length, int64_t columns,
                  bool descending, T* values, int64_t* rows) {
  Scratch scratch;
  auto* const lanes = scratch.take<SortKey<T>>(length * columns);
  auto* const places = scratch.take<int64_t>(length);
  LaneSorter<SortKey<T>> sorter;
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t c = 0; c < columns; ++c) lanes[c * length + i] = static_cast<SortKey<T>>(x[ragged.row(begin + i) * inner + c]);
  }
  for (int64_t c = 0; c < columns; ++c) {
    sorter.sort(lanes + c * length, length, descending, places);
    for (int64_t i = 0; i < length; ++i) {
      const int64_t to = ragged.row(begin + i) * inner + c, from = ragged.row(begin + places[i]);
      values[to] = x[from * inner + c];
      rows[to] = from;
    }
  }
}

}  // namespace

void segment_sort(const Context&, const View& self, const RaggedView& ragged, bool descending, const View& values,
                  const View& rows) {
  int64_t inner = 1;
  for (int dim = 1; dim < self.ndim; ++dim) inner *= self.sizes[dim];
  const int64_t blocks = (inner + kLanes - 1) / kLanes;
  const int64_t mean = 1 + ragged.rows() / std::max<int64_t>(1, ragged.components);
  visit(self.dtype, [&]<typename T>(TypeTag<T>) {
    parallel_for(ragged.components * blocks, 1 + kGrain / (mean * kLanes), [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t b = task / blocks, column = task % blocks * kLanes, begin = ragged.offsets[b],
                      length = ragged.offsets[b + 1] - begin;
        check(length < int64_t{1} << 32, "component {} has {} rows (expected fewer than 2^32)", b, length);
        if (length == 0) continue;
        sort_columns(self.ptr<const T>() + column, ragged, inner, begin, length, std::min(kLanes, inner - column), descending,
                     values.ptr<T>() + column, rows.ptr<int64_t>() + column);
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
