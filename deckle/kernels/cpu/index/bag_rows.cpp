// result[b] = the sum, or the mean, of the rows of weight that indices[b] names, each times its factor if there are some.
// weight: [V, D], indices and factors: [B, L], result: [B, D]
//
// Reads each named row once and writes each result once; sums are taken in float64, four rows at a time in the order of the
// indices, bag by bag: they do not depend on the number of threads.

#include <algorithm>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/rows.h"
#include "deckle/kernels/cpu/index/sums.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

constexpr int64_t kAtOnce = 4;  // rows

/// sums[d] += the sum of count <= 4 rows, each times its factor.
template <typename T>
void add_rows_of_bag(int64_t count, int64_t width, const T* const* rows, const double* factors, double* sums) {
  if (count == 4) {
    const T *const a = rows[0], *const b = rows[1], *const c = rows[2], *const e = rows[3];
    const double fa = factors[0], fb = factors[1], fc = factors[2], fe = factors[3];
    for (int64_t d = 0; d < width; ++d) {
      sums[d] += (fa * static_cast<double>(a[d]) + fb * static_cast<double>(b[d])) +
                 (fc * static_cast<double>(c[d]) + fe * static_cast<double>(e[d]));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t d = 0; d < width; ++d) sums[d] += factors[i] * static_cast<double>(rows[i][d]);
  }
}

/// Without factors where they are not defined.
void add_bags(const View& weight, const View& indices, const View& factors, bool mean, const View& result) {
  const int64_t bags = indices.sizes[0], length = indices.sizes[1], rows = weight.sizes[0], width = weight.sizes[1];
  if (result.numel() == 0) return check_indices(indices, rows);
  visit_floating(weight.dtype, [&]<typename T>(TypeTag<T>) {
    const T* const from = weight.ptr<const T>();
    const T* const scale = factors.defined ? factors.ptr<const T>() : nullptr;
    T* const to = result.ptr<T>();
    visit_index(indices, [&](const auto* chosen) {
      parallel_for(bags, grain_of(length * width * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
        Scratch scratch;
        double* const sums = scratch.take<double>(width);
        for (int64_t bag = begin; bag < end; ++bag) {
          std::fill_n(sums, width, 0.0);
          const int64_t last = (bag + 1) * length;
          for (int64_t i = bag * length; i < last; i += kAtOnce) {
            const int64_t count = std::min(kAtOnce, last - i);
            const T* x[kAtOnce];
            double by[kAtOnce];
            for (int64_t j = 0; j < count; ++j) {
              const auto row = static_cast<int64_t>(chosen[i + j]);
              check_index(row, rows);
              x[j] = from + row * width;
              by[j] = scale == nullptr ? 1 : static_cast<double>(scale[i + j]);
            }
            add_rows_of_bag(count, width, x, by, sums);
          }
          const double divisor = mean ? static_cast<double>(length) : 1;
          for (int64_t d = 0; d < width; ++d) to[bag * width + d] = round_sum<T>(sums[d] / divisor);
        }
      });
    });
  });
}

}  // namespace

void bag_rows(const Context&, const View& weight, const View& indices, bool mean, const View& result) {
  add_bags(weight, indices, View{}, mean, result);
}

void bag_products(const Context&, const View& weight, const View& indices, const View& factors, const View& result) {
  add_bags(weight, indices, factors, false, result);
}

}  // namespace deckle::kernels::cpu
