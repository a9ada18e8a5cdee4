// Products of the rows of each component, column by column.                              values: [rows, inner], result: [B,
// inner]
//
// Read 4 bytes per element, one multiplication in double (int64_t for integers), rounded once. Instances: float (float32 and the
// halves), double, int64_t (integers, bool).

#include <algorithm>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {

void segment_prod(const CpuContext&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  simd::visit_compute(values.dtype, [&]<typename T>(TypeTag<T>) {
    using Product = segment::SumOf<T>;
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      Product product[segment::kColumns];
      T buffer[segment::kColumns], rounded[segment::kColumns];
      const int64_t lanes = segment::lanes(inner, ragged.offsets[b + 1] - ragged.offsets[b], columns);
      std::fill_n(product, lanes, Product{1});
      segment::for_runs(inner, ragged.offsets[b], ragged.offsets[b + 1], columns, [&](int64_t row, int64_t count) {
        const T* const x = segment::read_run(values, ragged, inner, row, first, count, buffer);
        for (int64_t c = 0; c < count; ++c) product[c] *= static_cast<Product>(x[c]);
      });
      segment::fold(inner, lanes, product, [](Product a, Product b) { return a * b; });
      for (int64_t c = 0; c < columns; ++c) rounded[c] = static_cast<T>(product[c]);
      segment::write_row(result, inner, b, first, columns, rounded);
    });
  });
}

}  // namespace deckle::kernels::cpu
