// Forward mode of attention on Hopper: how out and lse move when q, k and v do.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// The problem's out and lse are where their tangents go; lse may be null.
struct AttentionTangent {
  CudaAttentionProblem problem;
  AttentionTensor q, k, v;  // tangents, of the same element type; null: zero
};

/// Serves bf16, head dims of 64 and 128 and smaller ones of as many panels, masks of one interval, no sinks.
std::string tangent_attention_why_not(const AttentionTangent& arguments);
int64_t tangent_attention_workspace_bytes(const AttentionTangent& arguments);
void tangent_attention(const AttentionTangent& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
