#pragma once

namespace deckle::kernels::cpu::matmul {

/// What every use of OpenBLAS begins with, its LAPACK too: the first call, which is made when Deckle is loaded, selects the
/// kernels of the instruction set; an unknown DECKLE_CPU is an Error. Bits of a result would else depend on what ran before, and
/// kernels would be exchanged under a call that is running.
void prepare_openblas();

}  // namespace deckle::kernels::cpu::matmul
