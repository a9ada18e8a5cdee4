#pragma once

#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu::matmul {

/// Computes a float32 or float64 product by blocks of registers; false, and nothing done, where libraries are better: without
/// blocks for this instruction set, and with few rows, columns or products a sum. K >= 1.
bool multiply_blocked(const Product& product);

}  // namespace deckle::kernels::cpu::matmul
