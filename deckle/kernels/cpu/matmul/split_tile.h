#pragma once

#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// Whether bfloat16 has tiles, so that float16 is faster split into it.
bool splits_float16();

/// One tile of float16 by products of bfloat16, to float32; false, and nothing done, where it is small or an element is not
/// finite. The operands of `tile` are a and b in place of its own.
bool split_tile(TileProduct tile, const Matrix& a, const Matrix& b);

}  // namespace deckle::kernels::cpu::matmul
