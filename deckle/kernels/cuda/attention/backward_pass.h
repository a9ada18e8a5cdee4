// The launches of one backward on Hopper.
#pragma once

#include <cuda_runtime_api.h>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

/// Whether the gradient of the bias is a sum over sequences or heads, which all_gradients does not make.
bool sums_bias_gradient(const AttentionBackward& arguments);

/// Queues all launches, after preparing those that may be refused. What is asked has been checked, there are heads and sequences.
void run_backward(const AttentionBackward& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention
