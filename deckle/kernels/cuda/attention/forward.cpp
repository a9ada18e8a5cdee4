#include "deckle/kernels/cuda/attention/forward.h"

#include <span>

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/instance.h"

namespace deckle::kernels::cuda {
namespace attention {

/// Generated from ops/instances.yaml.
std::span<const ForwardInstance> forward_instances();

}  // namespace attention

namespace {

using attention::ForwardInstance;
using attention::ForwardUse;

// Up to this mean query length the kernel for short sequences is the faster one, up to so many keys the one for medium lengths.
constexpr int64_t kShortLength = 128;
constexpr int64_t kMediumKeys = 2048;

ForwardUse preferred_use(const AttentionSizes& sizes) {
  if (sizes.ragged()) return sizes.query_rows <= kShortLength * sizes.batch ? ForwardUse::short_sequences : ForwardUse::long_keys;
  return sizes.key_rows <= kMediumKeys ? ForwardUse::medium_keys : ForwardUse::long_keys;
}

// The preferred kernel, or the one for many keys, which every served head dim has.
const ForwardInstance* find(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  const ForwardInstance* found = nullptr;
  for (const ForwardInstance& instance : attention::forward_instances()) {
    if (instance.element != problem.element || instance.head_dim != sizes.head_dim || instance.value_dim != sizes.value_dim)
      continue;
    if (instance.use == preferred_use(sizes)) return &instance;
    if (instance.use == ForwardUse::long_keys) found = &instance;
  }
  return found;
}

}  // namespace

std::string attention_forward_why_not(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  if (find(problem) == nullptr) {
    std::string served;
    for (const ForwardInstance& instance : attention::forward_instances()) {
      if (instance.element != problem.element || instance.use != ForwardUse::long_keys) continue;
      served += (served.empty() ? "" : ", ") + std::to_string(instance.head_dim) + "/" + std::to_string(instance.value_dim);
    }
    return "D = " + std::to_string(sizes.head_dim) + ", Dv = " + std::to_string(sizes.value_dim) + " (serves " + served + ")";
  }
  if (std::string reason = attention::problem_why_not(problem); !reason.empty()) return reason;
  return attention::device_why_not(9, 9);
}

int64_t attention_forward_workspace_bytes(const CudaAttentionProblem& problem) {
  const ForwardInstance* instance = find(problem);
  return instance == nullptr ? 0 : instance->workspace_bytes(problem);
}

void attention_forward(const CudaAttentionProblem& problem, cudaStream_t stream) {
  constexpr const char* kName = "attention_forward";
  attention::refuse_if(attention_forward_why_not(problem), kName);
  attention::refuse_if(attention::workspace_why_not(problem, attention_forward_workspace_bytes(problem)), kName);
  find(problem)->launch(problem, stream);
}

}  // namespace deckle::kernels::cuda
