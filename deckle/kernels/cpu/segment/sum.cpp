// Sums and means of the rows of each component.                                   values: [rows, inner], sums: [B, inner]
//
// Read 4, write 4 / length bytes per element; one addition. The sums are those of dense tensors (reduce/sum.cpp); a mean is
// divided in double and rounded once; of no rows NaN.

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/values.h"

namespace deckle::kernels::cpu {

void segment_sum(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  segment::fold(
      reduce::sums(), values, ragged, [](int64_t) { return 1.0; }, result);
}

void segment_mean(const Context&, const View& values, const RaggedView& ragged, const View& means) {
  segment::fold(
      reduce::means(), values, ragged, [](int64_t rows) { return static_cast<double>(rows); }, means);
}

}  // namespace deckle::kernels::cpu
