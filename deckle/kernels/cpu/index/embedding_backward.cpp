// grad: [..., D], indices: [...], result: [V, D] = the sum of the rows of grad that came from each row

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/add_rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void embedding_backward(const Context&, const View& grad, const View& indices, int64_t rows, const View& result) {
  add_rows(View{}, RowShape(1, rows, result.sizes[1]), indices, grad, result);
}

}  // namespace deckle::kernels::cpu
