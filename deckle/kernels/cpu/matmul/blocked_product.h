#pragma once

#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu::matmul {

/// Computes a float32 or float64 product by blocks of registers; false, and nothing done, where libraries are better: without
/// blocks for this instruction set, and with few rows, columns or products a sum, but for those of float64 with few rows and a b
/// that lies along them, and those with few columns and an a that does. K >= 1.
bool multiply_blocked(const Product& product);

}  // namespace deckle::kernels::cpu::matmul
