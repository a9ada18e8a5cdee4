// Attention forward of float32 on Hopper's tensor cores: every number is the sum of two of float16, every product three.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// As those of forward.h, but q, k, v and out point to float32, of any strides and alignment; the problem's element type counts
/// for nothing. Serves masks of one interval and sinks, and head dims up to 128.
std::string split_attention_forward_why_not(const CudaAttentionProblem& problem);
int64_t split_attention_forward_workspace_bytes(const CudaAttentionProblem& problem);
/// Returns where in the workspace the device will say 1 if the operands do not suit two parts of float16 (split_parts.cuh), so
/// that the results may err by more than float32's do; nullptr: there is nothing to compute.
const int* split_attention_forward(const CudaAttentionProblem& problem, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
