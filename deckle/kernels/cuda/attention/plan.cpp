#include "deckle/kernels/cuda/attention/plan.h"

#include <vector>

#include "deckle/kernels/cuda/attention/backward_plan.h"
#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/forward_lists.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/tile_walks.cuh"

namespace deckle::kernels::cuda {

int attention_plan_kind(const CudaAttentionProblem& problem) {
  return attention::has_features(problem) ? 1 + (problem.bias.data != nullptr) + 2 * attention::has_walks(problem) : 0;
}

int64_t attention_plan_bytes(const CudaAttentionProblem& problem) {
  if (!problem.sizes.ragged() || attention::find_forward(problem, attention::ForwardUse::long_keys) == nullptr) return 0;
  const int64_t forward = attention::forward_lists_bytes(problem);
  return forward == 0 ? 0 : forward + attention::BackwardPlan(problem).lists_bytes();
}

void attention_make_plan(const CudaAttentionProblem& problem, void* memory, cudaStream_t stream) {
  constexpr const char* kName = "attention_make_plan";
  if (attention_plan_bytes(problem) == 0) return;
  attention::refuse_if(attention::device_why_not(problem.device, 9, 9), kName);
  attention::refuse_if(attention::memory_why_not("plan", memory), kName);
  const attention::OnDevice device(problem.device);
  attention::refuse_if(attention::stream_why_not(stream), kName);
  std::vector<attention::WorkListRequest> requests = attention::forward_requests(problem, memory);
  const attention::BackwardPlan backward(problem);
  if (!backward.served()) return attention::make_work_lists(problem, requests, stream);
  for (const attention::WorkListRequest& request :
       backward.requests(static_cast<char*>(memory) + attention::forward_lists_bytes(problem))) {
    requests.push_back(request);
  }
  attention::make_work_lists(problem, requests, stream);
}

}  // namespace deckle::kernels::cuda
