#pragma once

#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu::matmul {

/// Computes a product of float64 with few rows or columns, or of float32 with few rows, if the other factor lies along k, and
/// says whether it did. Which products those are depends on shapes and strides alone.
bool multiply_thin(const Product& product);

}  // namespace deckle::kernels::cpu::matmul
