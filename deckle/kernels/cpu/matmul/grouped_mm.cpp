// C_b = op(A_b) op(B_b) for every component b; op transposes or not. Matrices are stored consecutively in packed values:
// component b of an operand is [sizes[b, 0], sizes[b, 1]] row-major from element offsets[b] on.
//
// FLOPs: the sum of 2 M_b N_b K_b. One launch: the tiles of all products are scheduled together; transposes are strides.

#include <vector>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu {

using namespace matmul;
namespace {

Matrix component(const View& values, const RaggedView& shape, int64_t b, bool transposed) {
  const int64_t rows = shape.sizes[2 * b], cols = shape.sizes[2 * b + 1];
  const auto* const data = static_cast<const char*>(values.data) + shape.offsets[b] * item_size(values.dtype);
  return transposed ? Matrix{data, values.dtype, cols, rows, 1, cols} : Matrix{data, values.dtype, rows, cols, cols, 1};
}

}  // namespace

void grouped_mm(const Context&, const View& self, const RaggedView& self_shape, const View& other, const RaggedView& other_shape,
                const RaggedView& product_shape, bool transpose_self, bool transpose_other, const View& result) {
  std::vector<Product> products(static_cast<size_t>(product_shape.components));
  for (int64_t b = 0; b < product_shape.components; ++b) {
    Product& product = products[static_cast<size_t>(b)];
    product.a = component(self, self_shape, b, transpose_self);
    product.b = component(other, other_shape, b, transpose_other);
    product.c = static_cast<char*>(result.data) + product_shape.offsets[b] * item_size(result.dtype);
  }
  multiply_each(products);
}

}  // namespace deckle::kernels::cpu
