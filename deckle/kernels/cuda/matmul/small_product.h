#pragma once

#include "deckle/kernels/cuda/matmul/product.h"

namespace deckle::kernels::cuda::matmul {

/// The same as product() of one matrix of at most 64 rows, columns and terms, any strides; false: it is larger, and nothing was
/// done.
bool small_product(const Context& context, DType dtype, const Matrices& a, const Matrices& b, const Matrices& result,
                   const void* bias, bool accumulates);

}  // namespace deckle::kernels::cuda::matmul
