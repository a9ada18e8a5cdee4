#pragma once

#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu::matmul {

/// Computes a float32 or float64 product if it is one that calling an engine costs more than, and says whether it did: few
/// multiplications, or a matrix times a vector. Which products those are depends on shapes and strides alone.
bool multiply_directly(const Product& product);

/// c = a b modulo 2^64, of int64 matrices; c is dense. For any k, 0 too.
void multiply_integers(const Matrix& a, const Matrix& b, int64_t* c);

}  // namespace deckle::kernels::cpu::matmul
