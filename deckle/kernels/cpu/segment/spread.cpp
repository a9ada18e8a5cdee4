// Variance, standard deviation and norm over the rows of each component, column by column.    values: [rows, inner]
//
// Read 4 bytes per element, two to five operations, all in double: squares of halves do not overflow. The arithmetic is that of
// dense tensors (reduce/spread.cpp). The variance of no rows is NaN.

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/values.h"

namespace deckle::kernels::cpu {

void segment_var(const Context&, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  segment::fold(
      reduce::variances(), values, ragged, [=](int64_t) { return static_cast<double>(correction); }, result);
}

void segment_std(const Context&, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  segment::fold(
      reduce::standard_deviations(), values, ragged, [=](int64_t) { return static_cast<double>(correction); }, result);
}

void segment_norm(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  segment::fold(
      reduce::norms(), values, ragged, [](int64_t) { return 0.0; }, result);
}

}  // namespace deckle::kernels::cpu
