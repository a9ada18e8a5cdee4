// Means of the rows of each component: their sums, kept in float or double whatever the values' dtype, divided and then rounded once.
// values: [rows, inner], means: [B, inner]. Of no rows: NaN.

#include <memory>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {

void segment_sum(const CpuContext&, const View& values, const RaggedView& ragged, const View& sums);

void segment_mean(const CpuContext& context, const View& values, const RaggedView& ragged, const View& means) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const auto memory = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(ragged.components * inner));
    View sums = means;
    sums.data = memory.get();
    sums.dtype = dtype_of<T>;
    segment_sum(context, values, ragged, sums);
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      T* const row = memory.get() + b * inner + first;
      const T count = static_cast<T>(ragged.offsets[b + 1] - ragged.offsets[b]);
      for (int64_t c = 0; c < columns; ++c) row[c] /= count;
      segment::write_row(means, inner, b, first, columns, row);
    });
  });
}

}  // namespace deckle::kernels::cpu
