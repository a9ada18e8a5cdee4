// Which forward kernel takes which sequences of a ragged batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/instance.h"

namespace deckle::kernels::cuda::attention {

/// Generated from ops/instances.yaml.
std::span<const ForwardInstance> forward_instances();

/// The kernel of the smallest head dims that serve the problem's, for this use; null if there is none.
const ForwardInstance* find_forward(const CudaAttentionProblem& problem, ForwardUse use);

/// The sequences that one kernel takes, and where their list lies from the start of all lists on.
struct ForwardList {
  const ForwardInstance* instance;
  SequenceFilter filter;
  int64_t offset;
};

/// Each sequence is in one list by its own length: the host does not know the lengths, so both kernels are launched. Scores with
/// features have one kernel, or none.
std::vector<ForwardList> forward_lists(const CudaAttentionProblem& problem);
int64_t forward_lists_bytes(const CudaAttentionProblem& problem);
std::vector<WorkListRequest> forward_requests(const CudaAttentionProblem& problem, void* memory);

}  // namespace deckle::kernels::cuda::attention
