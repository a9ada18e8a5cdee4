// Host side shared by the portable kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/portable_tile.cuh"

namespace deckle::kernels::cuda::attention::portable {

void forward(const CudaAttentionProblem& problem, cudaStream_t stream);
void backward(const AttentionBackward& arguments, cudaStream_t stream);

/// Shared memory of a block.
int forward_shared_bytes(const CudaAttentionProblem& problem);
int backward_shared_bytes(const CudaAttentionProblem& problem);

/// Row statistics of the backward: lse and delta, those of a head side by side; and what sinks take.
int64_t backward_bytes(const CudaAttentionProblem& problem);

}  // namespace deckle::kernels::cuda::attention::portable
