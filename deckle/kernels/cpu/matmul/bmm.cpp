// self: [B, M, K], mat2: [B, K, N], result: [B, M, N]

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu {

using namespace matmul;

void bmm(const CpuContext&, const View& self, const View& mat2, const View& result) {
  multiply({.a = matrix_of(self, 1, 2),
            .b = matrix_of(mat2, 1, 2),
            .batch = self.sizes[0],
            .a_batch_stride = self.strides[0],
            .b_batch_stride = mat2.strides[0],
            .c = result.data});
}

}  // namespace deckle::kernels::cpu
