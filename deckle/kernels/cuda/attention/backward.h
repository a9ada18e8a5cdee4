// The backward of attention on Hopper: dQ, dK, dV from dO and dLSE.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// Bytes of workspace that attention_backward needs; a function of the sizes and of `deterministic` alone.
int64_t attention_backward_workspace_bytes(const AttentionBackward& arguments);

/// Empty if attention_backward serves the problem, or else the reason why not.
std::string attention_backward_why_not(const AttentionBackward& arguments);

/// Enqueues the backward. Every element of grad_q, grad_k and grad_v that belongs to a sequence is written; nothing else is.
/// Rows that attend no key and keys that no row attends get zeros. Bit-equal from run to run, unless arguments.deterministic is
/// false and one pass with an unordered sum for dQ is more than 5 % faster: at head dim 128, from 4,000 keys where all rows
/// attend all of them (7 % at 4,096, 10 % at 8,192, 8 % at 16,384), from 16,000 under a mask (8 % causal). It is not taken where
/// it gains less or loses: 1 to 4 % at 2,048, -5 % at 4,096 and 8,192 causal, -14 % at 512. Throws std::runtime_error if the
/// problem is not served or a launch fails.
void attention_backward(const AttentionBackward& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
