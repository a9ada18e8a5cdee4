// Kernel instances: what a generated translation unit contributes to the sorted tables that the entry points look up.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

/// What a forward kernel is tuned for: many keys; up to about 2,000 keys; batches of short sequences.
enum class ForwardUse : int32_t { long_keys, medium_keys, short_sequences };

/// One compiled forward kernel.
struct ForwardInstance {
  AttentionElement element;
  int32_t head_dim, value_dim;
  ForwardUse use;
  void (*launch)(const CudaAttentionProblem&, cudaStream_t);
  int64_t (*workspace_bytes)(const CudaAttentionProblem&);
};

}  // namespace deckle::kernels::cuda::attention
