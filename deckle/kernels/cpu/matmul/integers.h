#pragma once

#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// c = a b modulo the range of their dtype, int64, int32 or uint8; c is dense. For any k, 0 too.
void multiply_integers(const Matrix& a, const Matrix& b, void* c);

}  // namespace deckle::kernels::cpu::matmul
