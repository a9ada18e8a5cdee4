// What the backwards of both paths do beside their own kernels: gradients of sinks, and zeros for keys that are spare
// and for tiles of a bias that nobody visits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention::portable {

/// The key of dropout in a graph's work, as its generator stands at each replay: [2] on the device, for all kernels of a call.
void make_dropout_key(const AttentionDropout& dropout, uint32_t* key, cudaStream_t stream);

/// Bytes of memory that sink_gradients takes: none without sinks.
int64_t sink_gradient_bytes(const CudaAttentionProblem& problem);

/// grad_sinks from out, lse and their gradients, if it is wanted. Two launches; bit-equal from run to run.
void sink_gradients(const AttentionBackward& arguments, void* memory, cudaStream_t stream);

/// result [heads, columns] = sums [heads, parts, columns] over the parts, in a fixed order. One launch.
void add_parts(const float* sums, float* result, int heads, int64_t parts, cudaStream_t stream, int columns = 1);

/// Zeros in a dense plane of 16-bit numbers whose rows are multiples of 16 bytes, of so many heads and sequences. One launch.
void clear_plane(const CudaAttentionPlane& plane, int heads, int sequences, cudaStream_t stream);

/// Zeros in grad_k and grad_v where rows are spare, if key_lengths are given. One launch, after all that writes them.
void clear_spare_keys(const AttentionBackward& arguments, cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention::portable
