#include "deckle/kernels/cuda/attention/forward.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <utility>

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
const ForwardInstance* find(const AttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  const ForwardInstance* found = nullptr;
  for (const ForwardInstance& instance : attention::forward_instances()) {
    if (instance.element != problem.element || instance.head_dim != sizes.head_dim || instance.value_dim != sizes.value_dim) continue;
    if (instance.use == preferred_use(sizes)) return &instance;
    if (instance.use == ForwardUse::long_keys) found = &instance;
  }
  return found;
}

std::string bad_tensor(const char* name, const AttentionTensor& tensor, bool ragged) {
  const auto multiple_of_eight = [](int64_t n) { return n % 8 == 0; };
  if (reinterpret_cast<uintptr_t>(tensor.data) % 16 != 0) return std::string(name) + " is not aligned to 16 bytes";
  if (!multiple_of_eight(tensor.row_stride) || !multiple_of_eight(tensor.head_stride) ||
      (!ragged && !multiple_of_eight(tensor.batch_stride))) {
    return std::string("the strides of ") + name + " are " + std::to_string(tensor.batch_stride) + ", " +
           std::to_string(tensor.row_stride) + ", " + std::to_string(tensor.head_stride) + " (serves multiples of 8)";
  }
  return {};
}

}  // namespace

std::string attention_forward_why_not(const AttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  if (find(problem) == nullptr) {
    std::string served;
    for (const ForwardInstance& instance : attention::forward_instances()) {
      if (instance.element != problem.element || instance.use != ForwardUse::long_keys) continue;
      served += (served.empty() ? "" : ", ") + std::to_string(instance.head_dim) + "/" + std::to_string(instance.value_dim);
    }
    return "D = " + std::to_string(sizes.head_dim) + ", Dv = " + std::to_string(sizes.value_dim) + " (serves " + served + ")";
  }
  if (sizes.kv_heads <= 0 || sizes.heads % sizes.kv_heads != 0) {
    return std::to_string(sizes.heads) + " heads are not a multiple of " + std::to_string(sizes.kv_heads) + " kv heads";
  }
  if ((sizes.query_offsets == nullptr) != (sizes.key_offsets == nullptr)) return "offsets are given for one of queries and keys only";
  if (sizes.query_rows >= int64_t{1} << 30 || sizes.key_rows >= int64_t{1} << 30) {
    return std::to_string(std::max(sizes.query_rows, sizes.key_rows)) + " rows (serves fewer than 2^30)";
  }
  for (const auto& [name, tensor] : {std::pair("q", &problem.q), {"k", &problem.k}, {"v", &problem.v}, {"out", &problem.out}}) {
    if (std::string reason = bad_tensor(name, *tensor, sizes.ragged()); !reason.empty()) return reason;
  }
  return {};
}

int64_t attention_forward_workspace_bytes(const AttentionProblem& problem) {
  const ForwardInstance* instance = find(problem);
  return instance == nullptr ? 0 : instance->workspace_bytes(problem);
}

void attention_forward(const AttentionProblem& problem, cudaStream_t stream) {
  if (const std::string reason = attention_forward_why_not(problem); !reason.empty()) throw std::runtime_error("attention_forward: " + reason);
  if (problem.workspace_bytes < attention_forward_workspace_bytes(problem)) {
    throw std::runtime_error("attention_forward: a workspace of " + std::to_string(problem.workspace_bytes) + " bytes was given, " +
                             std::to_string(attention_forward_workspace_bytes(problem)) + " are needed");
  }
  find(problem)->launch(problem, stream);
}

}  // namespace deckle::kernels::cuda
