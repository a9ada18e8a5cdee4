// Attention forward on Hopper: out = softmax(mask(scale q kᵀ)) v, and the log-sum-exp of each row.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// Empty if the kernels serve the problem; otherwise the reason, naming what was given and what would be served.
std::string attention_forward_why_not(const CudaAttentionProblem& problem);

/// Bytes of workspace that attention_forward needs.
int64_t attention_forward_workspace_bytes(const CudaAttentionProblem& problem);

/// Enqueues the forward pass; never synchronises. Throws std::runtime_error with attention_forward_why_not's reason or the CUDA
/// error.
void attention_forward(const CudaAttentionProblem& problem, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
