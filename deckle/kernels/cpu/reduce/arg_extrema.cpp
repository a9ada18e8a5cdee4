// Where the largest or smallest element of each row is, and its value.          Reads every element once; a NaN wins
//
// Among equal elements the first is taken. Instances: float (float32 and the halves), double, int64_t (integers, bool).
#include <cmath>
#include <optional>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"

namespace deckle::kernels::cpu {
namespace {

template <bool kLargest, typename T>
int64_t first_best(int64_t n, const T* x) {
  int64_t best = 0;
  T value = x[0];
  for (int64_t i = 1; i < n && value == value; ++i) {
    const bool better = (kLargest ? x[i] > value : x[i] < value) || x[i] != x[i];
    if (better) best = i, value = x[i];
  }
  return best;
}

/// `values` may be undefined. `all`: the whole view is one row.
template <bool kLargest>
void find(const View& self, std::optional<int64_t> dim, const View* values, const View& indices) {
  View flat = self;
  if (!dim) {  // contiguous by contract
    flat.ndim = 1;
    flat.sizes[0] = self.numel();
    flat.strides[0] = 1;
  }
  simd::visit_compute(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce::by_rows<T>(std::array<const View*, 1>{&flat}, std::array<const View*, 0>{}, dim.value_or(0),
                       [&](int64_t first, int64_t rows, int64_t n, const auto& x, const auto&) {
      check(n > 0, "a row of no elements has no largest or smallest one");
      std::vector<T> best(static_cast<size_t>(rows));
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t at = first_best<kLargest>(n, x[0] + r * n);
        indices.ptr<int64_t>()[first + r] = at;
        best[static_cast<size_t>(r)] = x[0][r * n + at];
      }
      if (values == nullptr) return;
      simd::store_run(best.data(), rows, static_cast<char*>(values->data) + first * item_size(values->dtype), values->dtype, 1);
    });
  });
}

}  // namespace

void argmax(const CpuContext&, const View& self, std::optional<int64_t> dim, bool, const View& result) {
  find<true>(self, dim, nullptr, result);
}
void argmin(const CpuContext&, const View& self, std::optional<int64_t> dim, bool, const View& result) {
  find<false>(self, dim, nullptr, result);
}
void max(const CpuContext&, const View& self, int64_t dim, bool, const View& values, const View& indices) {
  find<true>(self, dim, &values, indices);
}
void min(const CpuContext&, const View& self, int64_t dim, bool, const View& values, const View& indices) {
  find<false>(self, dim, &values, indices);
}

}  // namespace deckle::kernels::cpu
