// values, indices = self sorted along dim, stable; NaN counts as larger than everything.
//
// O(n log n) comparisons per lane. Keys are float32 for halves, int64 for all integers: three instances.

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/sort/lane.h"

namespace deckle::kernels::cpu {

void sort(const Context&, const View& self, int64_t dim, bool descending, const View& values, const View& indices) {
  int64_t outer = 1, length = 1, inner = 1;
  for (int i = 0; i < self.ndim; ++i) (i < dim ? outer : i == dim ? length : inner) *= self.sizes[i];
  check(length < int64_t{1} << 32, "dim {} has {} elements (expected fewer than 2^32)", dim, length);
  visit(self.dtype, [&]<typename T>(TypeTag<T>) {
    const T* from = self.ptr<const T>();
    T* to = values.ptr<T>();
    auto* order = indices.ptr<int64_t>();
    parallel_for(outer * inner, 1 + 4096 / (length + 1), [&](int64_t begin, int64_t end) {
      LaneSorter<SortKey<T>> sorter;
      std::vector<int64_t> places(static_cast<size_t>(length));
      for (int64_t n = begin; n < end; ++n) {
        const int64_t start = n / inner * length * inner + n % inner;
        sorter.sort(from + start, inner, length, descending, places.data());
        for (int64_t i = 0; i < length; ++i) {
          const int64_t place = places[static_cast<size_t>(i)];
          to[start + i * inner] = from[start + place * inner];
          order[start + i * inner] = place;
        }
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
