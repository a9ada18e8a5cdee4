#include "deckle/kernels/cuda/attention/forward.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/forward_lists.h"
#include "deckle/kernels/cuda/attention/instance.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/ragged_bias.h"
#include "deckle/kernels/cuda/attention/tile_walks.cuh"

namespace deckle::kernels::cuda {
namespace {

using attention::ForwardInstance;
using attention::ForwardList;
using attention::ForwardUse;
using attention::ListStart;

// Up to so many keys the kernel for medium lengths is the faster one.
constexpr int64_t kMediumKeys = 2048;

// One for each list of a plan.
constexpr int64_t kCounterBytes = 256;

const ForwardInstance* dense_instance(const CudaAttentionProblem& problem) {
  if (problem.sizes.key_rows <= kMediumKeys) {
    if (const ForwardInstance* found = attention::find_forward(problem, ForwardUse::medium_keys); found != nullptr) return found;
  }
  return attention::find_forward(problem, ForwardUse::long_keys);
}

std::string scored_why_not(const CudaAttentionProblem& problem) {
  if (problem.bias.data != nullptr && !attention::reads_wide(problem.bias) && !attention::is_ragged(problem.bias))
    return "the bias is broadcast over keys, or, ragged, over rows, or has rows that are no multiples of 16 bytes";
  if (std::string reason = attention::dropout_why_not(problem.dropout); !reason.empty()) return reason;
  if (const ForwardInstance* instance = attention::find_forward(problem, ForwardUse::scored); instance != nullptr)
    return attention::walks_why_not(problem, attention::Side::queries, instance->rows, instance->keys);
  std::string served;
  for (const ForwardInstance& instance : attention::forward_instances()) {
    if (instance.element != problem.element || instance.use != ForwardUse::scored) continue;
    served += (served.empty() ? "" : ", ") + std::to_string(instance.head_dim) + "/" + std::to_string(instance.value_dim);
  }
  return "with soft cap, slopes, bias, table, dropout or a mask of ranges or bytes D = " +
         std::to_string(problem.sizes.head_dim) + ", Dv = " + std::to_string(problem.sizes.value_dim) +
         " (serves multiples of 8 up to " + served + " with as many panels of 64 columns)";
}

// Long sequences first: the blocks of short ones fill up the multiprocessors that those leave.
void launch_lists(const CudaAttentionProblem& problem, cudaStream_t stream) {
  const bool shared = problem.plan != nullptr;
  auto* counters = static_cast<int32_t*>(problem.workspace);
  const std::vector<ForwardList> lists = attention::forward_lists(problem);
  std::vector<decltype(lists[0].instance->prepare_list(problem))> launches;
  for (const ForwardList& list : lists) launches.push_back(list.instance->prepare_list(problem));
  const char* memory = static_cast<const char*>(shared ? problem.plan : problem.workspace);
  if (shared) {
    attention::check(cudaMemsetAsync(counters, 0, kCounterBytes, stream), "attention_forward: work counters");
  } else {
    attention::make_work_lists(problem, attention::forward_requests(problem, problem.workspace), stream);
  }
  ListStart start = shared ? ListStart::after_predecessor : ListStart::beside_list;
  for (size_t i = 0; i < lists.size(); ++i) {
    launches[i](attention::ragged_work(memory + lists[i].offset, shared ? counters + i : nullptr), start, stream);
    start = ListStart::beside_other_list;
  }
}

// The walks of a ragged batch, and the copy of its bias, lie behind the room for its list, which a plan leaves to the counter.
void launch_scored(const CudaAttentionProblem& problem, cudaStream_t stream) {
  const ForwardInstance& instance = *attention::find_forward(problem, ForwardUse::scored);
  instance.prepare(problem, stream);
  return problem.sizes.ragged() ? launch_lists(problem, stream) : instance.launch(problem, stream);
}

}  // namespace

std::string attention_forward_why_not(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  if (attention::find_forward(problem, ForwardUse::long_keys) == nullptr) {
    std::string served;
    for (const ForwardInstance& instance : attention::forward_instances()) {
      if (instance.element != problem.element || instance.use != ForwardUse::long_keys) continue;
      served += (served.empty() ? "" : ", ") + std::to_string(instance.head_dim) + "/" + std::to_string(instance.value_dim);
    }
    return "D = " + std::to_string(sizes.head_dim) + ", Dv = " + std::to_string(sizes.value_dim) +
           " (serves multiples of 8 up to " + served + " with as many panels of 64 columns)";
  }
  if (std::string reason = attention::problem_why_not(problem); !reason.empty()) return reason;
  if (attention::has_features(problem)) {
    if (std::string reason = scored_why_not(problem); !reason.empty()) return reason;
  }
  int least = INT32_MAX;  // rows of a tile
  for (const ForwardInstance& instance : attention::forward_instances()) least = std::min(least, instance.rows);
  if (std::string reason = attention::tiles_why_not(sizes, attention::Side::queries, least, sizes.heads); !reason.empty())
    return reason;
  return attention::device_why_not(problem.device, 9, 9);
}

int64_t attention_forward_workspace_bytes(const CudaAttentionProblem& problem) {
  if (attention::find_forward(problem, ForwardUse::long_keys) == nullptr) return 0;
  if (attention::has_features(problem)) {
    const ForwardInstance* instance = attention::find_forward(problem, ForwardUse::scored);
    if (instance == nullptr) return 0;
    const attention::OnDevice device(problem.device);
    return instance->workspace_bytes(problem);
  }
  if (problem.sizes.ragged()) return problem.plan != nullptr ? kCounterBytes : attention::forward_lists_bytes(problem);
  const attention::OnDevice device(problem.device);
  return dense_instance(problem)->workspace_bytes(problem);
}

void attention_forward(const CudaAttentionProblem& problem, cudaStream_t stream) {
  constexpr const char* kName = "attention_forward";
  attention::refuse_if(attention_forward_why_not(problem), kName);
  attention::refuse_if(attention::workspace_why_not(problem, attention_forward_workspace_bytes(problem)), kName);
  const attention::OnDevice device(problem.device);
  attention::refuse_if(attention::stream_why_not(stream), kName);
  const AttentionSizes& sizes = problem.sizes;
  if (attention::has_features(problem)) {
    if (sizes.heads > 0 && sizes.batch > 0) launch_scored(problem, stream);
    return;
  }
  if (!sizes.ragged()) return dense_instance(problem)->launch(problem, stream);
  if (sizes.heads > 0 && sizes.batch > 0) launch_lists(problem, stream);
}

}  // namespace deckle::kernels::cuda
