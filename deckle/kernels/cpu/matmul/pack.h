#pragma once

#include <cstdint>

#include "deckle/base/half.h"
#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu {

/// Copies `from` densely to `to` in the wider type that a tile engine multiplies: float16 and bfloat16 to float32, others
/// as they are (bfloat16 too, if `keep_halves`). Column-major sources stay column-major, so long runs stay long.
Operand pack(const Matrix& from, bool keep_halves, void* to);

/// to[i] = from[i] rounded to nearest, ties to even.
void narrow(const float* from, bfloat16* to, int64_t count);
void narrow(const float* from, float16* to, int64_t count);

}  // namespace deckle::kernels::cpu
