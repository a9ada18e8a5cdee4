// weight: [V, D], indices: [...], result: [..., D]

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/take_rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void embedding(const Context&, const View& weight, const View& indices, const View& result) {
  take_rows(weight, RowShape(weight, 0), indices, result);
}

}  // namespace deckle::kernels::cpu
