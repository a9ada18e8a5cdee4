// grad: [..., N], input: [..., K], result: [N, K] = the sum over rows of grad^T input

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/product.h"
#include "deckle/kernels/cpu/matmul/rows.h"

namespace deckle::kernels::cpu {

using namespace matmul;

void linear_weight_backward(const Context&, const View& grad, const View& input, const View& result) {
  const Matrix rows = rows_of(grad);
  const Matrix transposed{rows.data, rows.dtype, rows.cols, rows.rows, rows.col_stride, rows.row_stride};
  multiply({.a = transposed, .b = rows_of(input), .c = result.data});
}

}  // namespace deckle::kernels::cpu
