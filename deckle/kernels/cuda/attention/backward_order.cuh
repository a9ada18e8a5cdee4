// In which order the blocks of a gradient kernel draw their tiles: how many heads run together, and which of them rise (see
// write_work in backward_common.cuh).
#pragma once

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/backward_plan.h"

namespace deckle::kernels::cuda::attention {

/// Sets tiles, planes (unless they are), chunk_heads, shrinking and rising_heads of a launch of `kernel`, whose blocks own tiles
/// of `side`. There are rows.
void order_tiles(BackwardArguments& arguments, const CudaAttentionProblem& problem, const BackwardPlan& plan,
                 const BackwardKernel& kernel, Side side);

}  // namespace deckle::kernels::cuda::attention
