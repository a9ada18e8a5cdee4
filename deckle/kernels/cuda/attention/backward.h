// The backward of attention on Hopper: dQ, dK, dV from dO and dLSE.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// Bytes of workspace that attention_backward needs; a function of the sizes alone. At head dims 64 and 128, from 768 keys in the
/// mean of sequences on, it holds dQ in float32: 4 bytes an element.
int64_t attention_backward_workspace_bytes(const AttentionBackward& arguments);

/// Empty if attention_backward serves the problem, or else the reason why not.
std::string attention_backward_why_not(const AttentionBackward& arguments);

/// Enqueues the backward. Every element of grad_q, grad_k and grad_v that belongs to a sequence is written; nothing else is.
/// Rows that attend no key and keys that no row attends get zeros. Bit-equal from run to run. Throws std::runtime_error if the
/// problem is not served or a launch fails.
void attention_backward(const AttentionBackward& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
