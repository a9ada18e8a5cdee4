#include "deckle/kernels/cuda/attention/forward_lists.h"

#include "deckle/kernels/cuda/attention/checks.h"

namespace deckle::kernels::cuda::attention {
namespace {

// Query rows up to which the kernel for short sequences is the faster one.
constexpr int kShortQueries = 128;

}  // namespace

const ForwardInstance* find_forward(const CudaAttentionProblem& problem, ForwardUse use) {
  const ForwardInstance* found = nullptr;
  for (const ForwardInstance& instance : forward_instances()) {
    if (instance.element != problem.element || instance.use != use ||
        !compiled_dims_serve(instance.head_dim, instance.value_dim, problem.sizes.head_dim, problem.sizes.value_dim)) {
      continue;
    }
    if (found == nullptr || instance.head_dim + instance.value_dim < found->head_dim + found->value_dim) found = &instance;
  }
  return found;
}

std::vector<ForwardList> forward_lists(const CudaAttentionProblem& problem) {
  if (has_features(problem)) {
    const ForwardInstance* scored = find_forward(problem, ForwardUse::scored);
    return scored != nullptr ? std::vector<ForwardList>{{scored, {}, 0}} : std::vector<ForwardList>();
  }
  const ForwardInstance* of_long = find_forward(problem, ForwardUse::long_keys);
  const ForwardInstance* of_short = find_forward(problem, ForwardUse::short_sequences);
  if (of_short == nullptr) return {{of_long, {}, 0}};
  return {{of_long, {.least_queries = kShortQueries + 1}, 0},
          {of_short, {.most_queries = kShortQueries}, work_list_bytes(problem.sizes, Side::queries, of_long->rows)}};
}

int64_t forward_lists_bytes(const CudaAttentionProblem& problem) {
  const std::vector<ForwardList> lists = forward_lists(problem);
  if (lists.empty()) return 0;
  const ForwardList& last = lists.back();
  return last.offset + work_list_bytes(problem.sizes, Side::queries, last.instance->rows);
}

std::vector<WorkListRequest> forward_requests(const CudaAttentionProblem& problem, void* memory) {
  std::vector<WorkListRequest> requests;
  for (const ForwardList& list : forward_lists(problem)) {
    requests.push_back({Side::queries, list.instance->rows, static_cast<char*>(memory) + list.offset, list.filter});
  }
  return requests;
}

}  // namespace deckle::kernels::cuda::attention
