// Products of the rows of each component, column by column: those of reduce/prod.cpp.

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/values.h"

namespace deckle::kernels::cpu {

void segment_prod(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  segment::fold(
      reduce::products(), values, ragged, [](int64_t) { return 0.0; }, result);
}

}  // namespace deckle::kernels::cpu
