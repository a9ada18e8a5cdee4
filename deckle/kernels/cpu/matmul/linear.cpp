// input: [..., K], weight: [N, K], bias: [N] or absent, result: [..., N] = input weight^T + bias

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/product.h"
#include "deckle/kernels/cpu/matmul/rows.h"

namespace deckle::kernels::cpu {

using namespace matmul;

void linear(const Context&, const View& input, const View& weight, const View& bias, const View& result) {
  multiply({.a = rows_of(input),
            .b = matrix_of(weight, 1, 0),
            .bias = bias.data,
            .bias_stride = bias.data == nullptr ? 0 : bias.strides[0],
            .c = result.data});
}

}  // namespace deckle::kernels::cpu
