// Kernel instances: what a generated translation unit contributes to the sorted tables that the entry points look up.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/work_list.cuh"

namespace deckle::kernels::cuda::attention {

/// What a forward kernel is tuned for: many keys; up to about 2,000 keys; batches of short sequences; scores that are more than
/// scale q k, or dropout.
enum class ForwardUse : int32_t { long_keys, medium_keys, short_sequences, scored };

/// How a launch over a list follows the one before it on the stream: ordinarily; beside the kernel that makes the list, for which
/// it waits; beside another launch over a list made in the same launch, whose end it waits for only at its own.
enum class ListStart : int32_t { after_predecessor, beside_list, beside_other_list };

/// One compiled forward kernel.
struct ForwardInstance {
  AttentionElement element;
  int32_t head_dim, value_dim;
  ForwardUse use;
  int32_t rows, keys;  // of a tile
  /// All of a dense problem.
  void (*launch)(const CudaAttentionProblem&, cudaStream_t);
  int64_t (*workspace_bytes)(const CudaAttentionProblem&);
  /// Everything that may be refused of a launch over a list, done before anything is queued; the result launches.
  std::function<void(const WorkList&, ListStart, cudaStream_t)> (*prepare_list)(const CudaAttentionProblem&);
  /// What lies in the workspace before either launch: walks of masks of ranges and of bytes, the copy of a ragged bias. Of scored
  /// instances.
  void (*prepare)(const CudaAttentionProblem&, cudaStream_t);
};

}  // namespace deckle::kernels::cuda::attention
