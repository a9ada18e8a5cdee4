// self: [M, K], mat2: [K, N], result: [M, N]

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/integers.h"
#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu {

using namespace matmul;

void mm(const Context&, const View& self, const View& mat2, const View& result) {
  if (!is_floating(self.dtype)) return multiply_integers(matrix_of(self, 0, 1), matrix_of(mat2, 0, 1), result.data);
  multiply({.a = matrix_of(self, 0, 1), .b = matrix_of(mat2, 0, 1), .c = result.data});
}

}  // namespace deckle::kernels::cpu
