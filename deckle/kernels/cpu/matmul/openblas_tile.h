#pragma once

#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// One float32 or float64 tile on the calling thread by OpenBLAS. Deterministic: depends on the arguments and the instruction
/// set alone. Unlike oneDNN it compiles nothing, so every tile may have a shape of its own.
void openblas_tile(const TileProduct& tile, DType dtype);

}  // namespace deckle::kernels::cpu::matmul
