#pragma once

#include <cstdint>

#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// Copies `from` densely to `to` in the wider type that a tile engine multiplies: float16 and bfloat16 to float32, others
/// as they are (bfloat16 too, if `keep_halves`). Column-major sources stay column-major, so that contiguous runs stay long.
Operand pack(const Matrix& from, bool keep_halves, void* to);

}  // namespace deckle::kernels::cpu::matmul
