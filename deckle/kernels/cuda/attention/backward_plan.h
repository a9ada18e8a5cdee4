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
  bool one_pass = false;  // all gradients by one kernel
  int parts = 1;          // one pass: into which the q heads of a kv head are divided among blocks
  int unit = 0;           // rows of a tile of statistics
  int64_t key_sums_rows = 0;
  // Parts of the workspace, in bytes from its start, where both work counters lie.
  int64_t key_list = 0, query_list = 0, lse2 = 0, delta = 0, turns = 0, query_sums = 0, key_sums = 0, bytes = 0;
};

}  // namespace deckle::kernels::cuda::attention
