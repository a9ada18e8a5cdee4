#pragma once

#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// One float64 tile on the calling thread by OpenBLAS. Deterministic: depends on the arguments and the instruction set alone.
void openblas_tile(const TileProduct& tile);

}  // namespace deckle::kernels::cpu::matmul
