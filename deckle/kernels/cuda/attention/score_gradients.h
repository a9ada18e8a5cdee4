// dS of all heads and sequences of a dense batch, kept in memory for the gradient of a bias that is a sum over heads or
// sequences: the kernel of all gradients stores it as it would the gradient of a bias of their full shape, and a kernel bound by
// memory sums.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

/// Where it lies in `memory`: a plane a head and sequence, of rows of a multiple of 8 keys.
CudaAttentionPlane score_gradients(const AttentionSizes& sizes, void* memory);

int64_t score_gradients_bytes(const AttentionSizes& sizes);

/// Sums `from` (score_gradients) in float32, sequence after sequence and in each head after head, to all of the gradient of the
/// bias: zeros where it reaches beyond rows and keys. One launch.
void sum_score_gradients(const AttentionBackward& arguments, const CudaAttentionPlane& from, cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention
