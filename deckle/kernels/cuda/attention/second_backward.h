// Second order of attention on Hopper: how the gradients of q, k and v move when q, k, v and the cotangents of out and lse do.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/cuda/attention/tangent_forward.h"

namespace deckle::kernels::cuda {

/// The problem's out and lse are the forward's. Tangents without memory are zero, but for that of out; of the gradients those
/// with memory are computed.
struct AttentionSecond {
  CudaAttentionProblem problem;
  AttentionTensor q, k, v, out;  // tangents
  const float* lse_tangent = nullptr;
  AttentionTensor grad_out, grad_out_tangent;
  const float *grad_lse = nullptr, *grad_lse_tangent = nullptr;  // null: zero
  AttentionTensor grad_q, grad_k, grad_v;                        // results
};

/// Serves bf16, head dims of 64 and 128 and smaller ones of as many panels, masks of one interval, neither sinks nor key lengths,
/// and no row without keys in a sequence that has any: the caller knows the lengths.
std::string second_attention_why_not(const AttentionSecond& arguments);
int64_t second_attention_workspace_bytes(const AttentionSecond& arguments);
void second_attention(const AttentionSecond& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
