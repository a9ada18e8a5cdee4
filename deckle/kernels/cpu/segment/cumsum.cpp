// Running sums over the rows of each component, column by column, forwards or backwards.               values, sums: [rows,
// inner]
//
// Read 4, write 4 bytes per element; every sum carries the rounding errors of those before it in double, as those of dense
// tensors do (reduce/running_sums.h). Instances: float (float32 and the halves), double, int64_t (integers, bool). Work is
// partitioned by component and columns.

#include <algorithm>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/column_sums.h"
#include "deckle/kernels/cpu/reduce/running_sums.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {
void segment_cumsum(const Context&, const View& values, const RaggedView& ragged, bool reverse, const View& sums) {
  const int64_t inner = segment::inner_size(values);
  simd::visit_compute(values.dtype, [&]<typename T>(TypeTag<T>) {
    const bool in_place = inner > 1 && sums.dtype == dtype_of<T>;  // rows of the result are written where they are
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      T buffer[segment::kColumns], rounded[segment::kColumns];
      const int64_t rows = ragged.offsets[b + 1] - ragged.offsets[b];
      if constexpr (!std::is_same_v<T, int64_t>) {
        if (inner == 1 && ragged.order == nullptr && values.dtype == dtype_of<T>) {  // a contiguous run
          const int64_t at = ragged.offsets[b];
          return reduce::running_sums().of<T>().row(rows, reverse, {}, values.ptr<const T>() + at, sums.ptr<T>() + at);
        }
      }
      reduce::ColumnSums<T, segment::kColumns> running(columns);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t row = reverse ? ragged.offsets[b + 1] - 1 - i : ragged.offsets[b] + i;
        const T* const x = segment::read_run(values, ragged, inner, row, first, columns, buffer);
        if (in_place) {
          running.add(x, sums.ptr<T>() + ragged.row(row) * inner + first);
        } else {
          running.add(x, rounded);
          segment::write_run(sums, ragged, inner, row, first, columns, rounded);
        }
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
