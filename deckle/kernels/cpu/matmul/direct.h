#pragma once

#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu::matmul {

/// Computes a floating product if it is one that calling an engine costs more than, and says whether it did: few multiplications,
/// of float32 or float64, a matrix times a vector, or a short K. Which products those are depends on shapes and strides alone.
bool multiply_directly(const Product& product);

}  // namespace deckle::kernels::cpu::matmul
