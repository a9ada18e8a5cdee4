// Variance over the rows of each component, column by column.                            values: [rows, inner], result: [B, inner]
//
// Two passes over a component's block of columns, which stays in L2 between them: the mean, then the sum of squared differences,
// both in double. Read 8 bytes per element, three operations. Instances: float (float32 and the halves), double.

#include <algorithm>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {

void segment_var(const CpuContext&, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  const int64_t inner = segment::inner_size(values);
  const auto plus = [](double a, double b) { return a + b; };
  simd::visit_compute(values.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      double mean[segment::kColumns] = {}, squares[segment::kColumns] = {};
      T buffer[segment::kColumns];
      segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
        const T* const x = segment::read_row(values, inner, row, first, count, buffer);
        for (int64_t c = 0; c < count; ++c) mean[c] += static_cast<double>(x[c]);
      });
      segment::fold(inner, mean, plus);
      const double share = 1 / static_cast<double>(end - begin);
      for (int64_t c = 0; c < segment::lanes(inner, columns); ++c) mean[c] *= share;
      segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
        const T* const x = segment::read_row(values, inner, row, first, count, buffer);
        for (int64_t c = 0; c < count; ++c) {
          const double difference = static_cast<double>(x[c]) - mean[c];
          squares[c] += difference * difference;
        }
      });
      segment::fold(inner, squares, plus);
      T rounded[segment::kColumns];
      for (int64_t c = 0; c < columns; ++c) rounded[c] = static_cast<T>(squares[c] / static_cast<double>(end - begin - correction));
      segment::write_row(result, inner, b, first, columns, rounded);
    });
  });
}

}  // namespace deckle::kernels::cpu
