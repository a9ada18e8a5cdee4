#include "deckle/kernels/cuda/attention/backward_plan.h"

#include <algorithm>

#include "deckle/kernels/cuda/attention/work_list.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

// Keys from which the unordered sum outweighs its zeroing and rounding by more than 5 % (see backward.h): where every row attends
// all of them, and in the mean of sequences otherwise.
constexpr int64_t kUnorderedKeys = 4000, kUnorderedMaskedKeys = 16000;

// What the instances of the problem's element type and head dims offer together.
BackwardKernels kernels_of(const AttentionProblem& problem) {
  BackwardKernels found;
  const auto take = [](BackwardKernel& to, const BackwardKernel& from) {
    if (from.function != nullptr) to = from;
  };
  for (const BackwardInstance& instance : backward_instances()) {
    if (instance.element != problem.element || instance.head_dim != problem.sizes.head_dim ||
        instance.value_dim != problem.sizes.value_dim) {
      continue;
    }
    take(found.key_gradients, instance.kernels.key_gradients);
    take(found.query_gradients, instance.kernels.query_gradients);
    take(found.short_gradients, instance.kernels.short_gradients);
    take(found.all_gradients, instance.kernels.all_gradients);
  }
  return found;
}

}  // namespace

BackwardPlan::BackwardPlan(const AttentionBackward& arguments) : kernels(kernels_of(arguments.problem)) {
  if (!served()) return;
  const AttentionSizes& sizes = arguments.problem.sizes;
  const int64_t sequences = sizes.ragged() ? std::max(sizes.batch, 1) : 1;
  one_pass = !arguments.deterministic && kernels.all_gradients.function != nullptr && sizes.query_rows > 0 &&
             sizes.key_rows >= (equal_costs(arguments.problem) ? kUnorderedKeys : kUnorderedMaskedKeys) * sequences;
  const int unit = kernels.key_gradients.walked_rows;
  const int64_t statistics =
      int64_t{sizeof(float)} * sizes.heads * unit * std::max<int64_t>(max_tiles(sizes, Side::queries, unit), 1);
  key_list = 256;
  query_list = key_list + work_list_bytes(sizes, Side::keys, kernels.key_gradients.owned_rows);
  lse2 = query_list + work_list_bytes(sizes, Side::queries, kernels.query_gradients.owned_rows);
  delta = lse2 + statistics;
  sums = (delta + statistics + 255) / 256 * 256;
  bytes = sums + (one_pass ? statistics * sizes.head_dim : 0);
}

}  // namespace deckle::kernels::cuda::attention
