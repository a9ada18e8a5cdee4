// The launches of one backward on Hopper.
#pragma once

#include <cuda_runtime_api.h>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/tile/tensor_map.h"

namespace deckle::kernels::cuda::attention {

/// How the copy engine sees the bias of a dense batch, or its gradient: it ends with the rows and keys. What a plane has behind
/// them is neither read, where NaN and infinity would reach the gradients of the last tile's, nor written.
tile::TensorMapShape plane_shape(const AttentionSizes& sizes, const CudaAttentionPlane& plane);

/// Queues all launches, after preparing those that may be refused. What is asked has been checked, there are heads and sequences.
void run_backward(const AttentionBackward& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention
