// self: [batch.., M, K], mat2: [batch.., K, N], result: [batch.., M, N]; an operand is broadcast by strides of 0

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu {

using namespace matmul;

void bmm(const Context&, const View& self, const View& mat2, const View& result) {
  const int row = self.ndim - 2, col = self.ndim - 1;
  BatchDim batch[kMaxDims];
  for (int dim = 0; dim < row; ++dim) batch[dim] = {self.sizes[dim], self.strides[dim], mat2.strides[dim]};
  multiply({.a = matrix_of(self, row, col),
            .b = matrix_of(mat2, row, col),
            .batch = {batch, static_cast<size_t>(row)},
            .c = result.data});
}

}  // namespace deckle::kernels::cpu
