// Attention on any GPU since sm_80, by mma.sync: the second candidate, with the same arguments and results, simpler and slower.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// Empty if the portable kernels serve the problem on the current device, or there is none; otherwise the reason.
std::string portable_attention_forward_why_not(const CudaAttentionProblem& problem);
std::string portable_attention_backward_why_not(const AttentionBackward& arguments);

/// Needs no workspace.
void portable_attention_forward(const CudaAttentionProblem& problem, cudaStream_t stream);

int64_t portable_attention_backward_workspace_bytes(const AttentionBackward& arguments);

/// Always deterministic. Throws std::runtime_error, as the forward, with the reason why not or if a launch fails.
void portable_attention_backward(const AttentionBackward& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
