#pragma once

namespace deckle::kernels::cpu::matmul {

/// What every use of OpenBLAS begins with, its LAPACK too: the first call selects the kernels of the instruction set. Bits of a
/// result would else depend on what ran before, and kernels would be exchanged under a call that is running.
void prepare_openblas();

}  // namespace deckle::kernels::cpu::matmul
