// Products of the rows of each component, column by column.                     values: [rows, inner], result: [B, inner]
//
// Read 4 bytes per element, one multiplication in double (int64_t for integers), rounded once. Instances: float (float32 and the
// halves), double, int64_t (integers, bool).

#include <algorithm>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/values.h"

namespace deckle::kernels::cpu {
namespace {

template <typename T, typename A>
A row_product(int64_t n, const T* x) {
  A product = 1;
  for (int64_t i = 0; i < n; ++i) product *= static_cast<A>(x[i]);
  return product;
}

template <typename T, typename A>
void column_products(const reduce::Rows<T>& rows, int64_t columns, A* results) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const T* const row = rows.at(r);
    for (int64_t c = 0; c < columns; ++c) results[c] *= static_cast<A>(row[c]);
  }
}

template <typename A>
A times(A a, A b) {
  return a * b;
}

void as_they_are(int64_t n, const double* folded, double, double* values) { std::copy_n(folded, n, values); }

template <typename T, typename A>
reduce::Fold<T, A> product() {
  return {&row_product<T, A>, &column_products<T, A>, &times<A>, &as_they_are, 1};
}

}  // namespace

void segment_prod(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  const reduce::Folds<double> products{
      {product<float, double>(), product<double, double>()},
      {&row_product<int64_t, int64_t>, &column_products<int64_t, int64_t>, &times<int64_t>, nullptr, 1}};
  segment::fold(
      products, values, ragged, [](int64_t) { return 0.0; }, result);
}

}  // namespace deckle::kernels::cpu
