#pragma once

#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// One tile on the calling thread by oneDNN. Operands: float32 or bfloat16; the result: the same or float32; bias: float32.
/// Deterministic: depends on the arguments and the instruction set alone.
void onednn_tile(const TileProduct& tile, DType operands, DType result);

/// Whether operands of bfloat16 are multiplied as such, by pair dot products or on AMX tiles; else they are to be widened first.
bool onednn_takes_bfloat16();

}  // namespace deckle::kernels::cpu::matmul
