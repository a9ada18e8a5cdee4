// What of a backward is decided before anything runs: which kernels, and where their workspace lies.
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/backward_kernels.h"

namespace deckle::kernels::cuda::attention {

struct BackwardPlan {
  explicit BackwardPlan(const AttentionBackward& arguments);

  /// Whether there are kernels for the element type and head dims; if not, nothing else here is set.
  bool served() const { return kernels.key_gradients.function != nullptr; }

  BackwardKernels kernels;
  bool one_pass = false;  // all gradients by one kernel, dQ in no fixed order
  // Parts of the workspace, in bytes from its start, where both work counters lie.
  int64_t key_list = 0, query_list = 0, lse2 = 0, delta = 0, sums = 0, bytes = 0;
};

}  // namespace deckle::kernels::cuda::attention
