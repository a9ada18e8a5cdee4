// Running sums over the rows of each component, column by column, forwards or backwards.               values, sums: [rows,
// inner]
//
// Read 4, write 4 bytes per element, one addition in double (a running sum in float would absorb small terms). Instances: float
// (float32 and the halves), double, int64_t (integers, bool). Work is partitioned by component and columns.

#include <algorithm>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {

void segment_cumsum(const Context&, const View& values, const RaggedView& ragged, bool reverse, const View& sums) {
  const int64_t inner = segment::inner_size(values);
  simd::visit_compute(values.dtype, [&]<typename T>(TypeTag<T>) {
    using Sum = segment::SumOf<T>;
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      Sum running[segment::kColumns];
      T buffer[segment::kColumns], rounded[segment::kColumns];
      std::fill_n(running, columns, Sum{0});
      const int64_t rows = ragged.offsets[b + 1] - ragged.offsets[b];
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t row = reverse ? ragged.offsets[b + 1] - 1 - i : ragged.offsets[b] + i;
        const T* const x = segment::read_run(values, ragged, inner, row, first, columns, buffer);
        for (int64_t c = 0; c < columns; ++c) {
          running[c] += static_cast<Sum>(x[c]);
          rounded[c] = static_cast<T>(running[c]);
        }
        segment::write_run(sums, ragged, inner, row, first, columns, rounded);
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
