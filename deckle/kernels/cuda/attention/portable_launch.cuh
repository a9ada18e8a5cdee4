// Host side shared by the portable kernels.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/portable_tile.cuh"

namespace deckle::kernels::cuda::attention::portable {

/// One block of 128 threads for each (tile slot, head).
template <class Arguments>
void launch_tiles(const void* kernel, int64_t tile_slots, int heads, int shared_bytes, Arguments arguments, cudaStream_t stream) {
  if (tile_slots == 0 || heads == 0) return;
  allow_shared_memory(kernel, shared_bytes);
  void* parameters[] = {&arguments};
  check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(tile_slots), static_cast<unsigned>(heads)), dim3(kThreads),
                         parameters, shared_bytes, stream),
        "portable attention");
}

void forward(const CudaAttentionProblem& problem, cudaStream_t stream);
void backward(const AttentionBackward& arguments, cudaStream_t stream);

/// Shared memory of a block.
int forward_shared_bytes(const AttentionSizes& sizes);
int backward_shared_bytes(const AttentionSizes& sizes);

/// Row statistics of the backward: lse in log2 units and delta, both laid out as lse.
int64_t backward_bytes(const AttentionSizes& sizes);

}  // namespace deckle::kernels::cuda::attention::portable
