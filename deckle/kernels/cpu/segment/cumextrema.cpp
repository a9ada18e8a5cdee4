// Running extrema over the rows of each component, column by column, and their rows.      values, result, rows: [rows, inner]
//
// Read 4, write 12 bytes per element. Ties go to the last; a NaN wins and stays. Instances: float (float32 and the halves),
// double, int64_t (integers, bool). Work is partitioned by component and columns.

#include <functional>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {
namespace {

/// `beats(a, b)`: a replaces b; true of equal ones.
template <typename T, typename Beats>
void scan(const View& values, const RaggedView& ragged, Beats beats, const View& result, const View& rows) {
  const int64_t inner = segment::inner_size(values);
  segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
    T best[segment::kColumns], buffer[segment::kColumns];
    int64_t where[segment::kColumns];
    for (int64_t i = ragged.offsets[b]; i < ragged.offsets[b + 1]; ++i) {
      const T* const x = segment::read_run(values, ragged, inner, i, first, columns, buffer);
      for (int64_t c = 0; c < columns; ++c) {
        const bool is_nan = x[c] != x[c];
        if (i == ragged.offsets[b] || is_nan || beats(x[c], best[c])) {
          best[c] = x[c];
          where[c] = ragged.row(i);
        }
      }
      segment::write_run(result, ragged, inner, i, first, columns, best);
      segment::write_run(rows, ragged, inner, i, first, columns, where);
    }
  });
}

}  // namespace

void segment_cummax(const Context&, const View& values, const RaggedView& ragged, const View& result, const View& rows) {
  simd::visit_compute(values.dtype,
                      [&]<typename T>(TypeTag<T>) { scan<T>(values, ragged, std::greater_equal<T>(), result, rows); });
}

void segment_cummin(const Context&, const View& values, const RaggedView& ragged, const View& result, const View& rows) {
  simd::visit_compute(values.dtype, [&]<typename T>(TypeTag<T>) { scan<T>(values, ragged, std::less_equal<T>(), result, rows); });
}

}  // namespace deckle::kernels::cpu
