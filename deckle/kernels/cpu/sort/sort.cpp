// values, indices = self sorted along dim, stable; NaN counts as larger than everything.
//
// O(n log n) comparisons per lane. Keys are float32 for halves, int64 for all integers: three instances.

#include <algorithm>
#include <cmath>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu {
namespace {

template <typename T>
using KeyOf = std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<std::is_same_v<T, double>, double, float>>;

template <typename Key>
struct Element {
  Key key;
  int64_t index;
};

template <typename Key>
bool before(Key a, Key b) {
  if constexpr (std::is_floating_point_v<Key>)
    return a < b || (std::isnan(b) && !std::isnan(a));
  else
    return a < b;
}

template <typename Key>
void sort_lane(std::vector<Element<Key>>& lane, bool descending) {
  using Item = Element<Key>;
  if (descending)
    std::stable_sort(lane.begin(), lane.end(), [](const Item& a, const Item& b) { return before(b.key, a.key); });
  else
    std::stable_sort(lane.begin(), lane.end(), [](const Item& a, const Item& b) { return before(a.key, b.key); });
}

}  // namespace

void sort(const CpuContext&, const View& self, int64_t dim, bool descending, const View& values, const View& indices) {
  int64_t outer = 1, length = 1, inner = 1;
  for (int i = 0; i < self.ndim; ++i) (i < dim ? outer : i == dim ? length : inner) *= self.sizes[i];
  visit(self.dtype, [&]<typename T>(TypeTag<T>) {
    const T* from = self.ptr<const T>();
    T* to = values.ptr<T>();
    auto* order = indices.ptr<int64_t>();
    parallel_for(outer * inner, 1 + 4096 / (length + 1), [&](int64_t begin, int64_t end) {
      std::vector<Element<KeyOf<T>>> lane(static_cast<size_t>(length));
      for (int64_t n = begin; n < end; ++n) {
        const int64_t start = n / inner * length * inner + n % inner;
        for (int64_t i = 0; i < length; ++i) lane[static_cast<size_t>(i)] = {static_cast<KeyOf<T>>(from[start + i * inner]), i};
        sort_lane(lane, descending);
        for (int64_t i = 0; i < length; ++i) {
          const int64_t source = lane[static_cast<size_t>(i)].index;
          to[start + i * inner] = from[start + source * inner];
          order[start + i * inner] = source;
        }
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
