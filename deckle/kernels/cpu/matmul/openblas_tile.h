#pragma once

#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// One float32 or float64 tile on the calling thread by OpenBLAS. Deterministic: depends on the arguments and the instruction
/// set alone. Unlike oneDNN it compiles nothing per shape, so many distinct tile shapes cost nothing.
void openblas_tile(const TileProduct& tile, DType dtype);

}  // namespace deckle::kernels::cpu::matmul
