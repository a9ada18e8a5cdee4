// Attention backward of float32 on Hopper's tensor cores, by two parts of float16 for each number (split_parts.cuh).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// As those of backward.h, but q, k, v, out, grad_out and the gradients point to float32, of any strides and alignment; the
/// problem's element type counts for nothing. Serves masks of one interval, head dims up to 128, neither sinks nor key lengths. A
/// gradient without memory is not computed.
std::string split_attention_backward_why_not(const AttentionBackward& arguments);
int64_t split_attention_backward_workspace_bytes(const AttentionBackward& arguments);
/// Returns where the device will say that the operands do not suit, as split_attention_forward does.
const int* split_attention_backward(const AttentionBackward& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
