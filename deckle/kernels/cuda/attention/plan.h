// What depends on the offsets of a ragged batch alone, decoded once: every layer and pass over the same batch may share it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// Plans differ with the kernels that they are for: 0 for scores of scale q k alone, else which features choose others. Two
/// problems that differ in further features alone share one plan.
int attention_plan_kind(const CudaAttentionProblem& problem);

/// Bytes of a plan for forward and backward; a function of the sizes and the kind, 0 if the problem is dense or not served.
int64_t attention_plan_bytes(const CudaAttentionProblem& problem);

/// Enqueues the decoding of the offsets to `memory` (256-byte aligned). Only sizes, offsets, mask, element type and kind of
/// `problem` are read. Afterwards `memory` may be the plan of any number of launches, also of such as overlap; it is never
/// written again.
void attention_make_plan(const CudaAttentionProblem& problem, void* memory, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
