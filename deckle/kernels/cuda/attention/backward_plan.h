// What of a backward is decided before anything runs: which kernels, and where their workspace lies.
#pragma once

#include <cstdint>
#include <vector>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/backward_kernels.h"
#include "deckle/kernels/cuda/attention/score_gradients.h"
#include "deckle/kernels/cuda/attention/work_list.cuh"

namespace deckle::kernels::cuda::attention {

struct BackwardPlan {
  /// `grad_bias`: without data if it is not wanted.
  explicit BackwardPlan(const CudaAttentionProblem& problem, const CudaAttentionPlane& grad_bias = {});

  /// Whether there are kernels for the element type and head dims; if not, nothing else here is set.
  bool served() const { return kernels.key_gradients.function != nullptr; }

  /// The kernel whose blocks own keys.
  const BackwardKernel& owner_of_keys() const { return one_pass ? kernels.all_gradients : kernels.key_gradients; }

  /// Rows and keys of a plane of dS in memory.
  static int64_t score_columns(const AttentionSizes& sizes) { return (sizes.query_rows + 127) / 128 * 128; }
  static int64_t score_rows(const AttentionSizes& sizes) { return (sizes.key_rows + 63) / 64 * 64; }

  /// Bytes of the work lists, keys, queries, short sequences, and what fills them at `memory`.
  int64_t lists_bytes() const { return short_list + short_list_bytes; }
  std::vector<WorkListRequest> requests(void* memory) const;

  BackwardKernels kernels;
  int head_dim = 0;  // of the kernels, which may be larger than the problem's
  bool ragged = false;
  bool one_pass = false;  // all gradients by one kernel
  bool rises = false;     // one pass, no groups: keys attend to the last query, but not from the first; see write_work
  int parts = 1;          // one pass: into which the q heads of a kv head are divided among blocks
  int unit = 0;           // rows of a tile of statistics
  int short_rows = -1;    // ragged: sequences of at most so many query rows and keys are done whole; -1: none
  int score_planes = 0;   // (sequence, kv head) pairs whose dS lies in memory at once; 0: dS is computed for dQ again
  int panel_units = 0;    // ragged, with a bias: kv heads, or parts of one, whose panels lie in memory at once; 0: no panels
  int64_t panel_head_rows = 0;
  ScoreTurns score_turns;  // dense: of dS, for a gradient of the bias that is a sum over heads or sequences
  int64_t key_sums_rows = 0;
  int64_t slope_parts = 0;  // of the gradient of each head's slope, one a warp that owns keys; none without slopes
  // In bytes from the start of the lists.
  int64_t key_list = 0, query_list = 0, short_list = 0, short_list_bytes = 0;
  // Parts of the workspace, in bytes from its start, where `counters` work counters lie. The lists are there unless a plan was
  // given; of dS there are two buffers of `score_bytes`.
  int counters = 2;
  int64_t lists = 0, scores = 0, score_bytes = 0, walks = 0, lse2 = 0, delta = 0, turns = 0, query_sums = 0, key_sums = 0,
          bias_sums = 0, score_sums = 0, sink_sums = 0, slope_sums = 0, panel_starts = 0, panel_bias = 0, panel_gradients = 0,
          panel_sums = 0, bytes = 0;

 private:
  void take_panels(const CudaAttentionProblem& problem, const CudaAttentionPlane& grad_bias);
};

/// Whether the gradient of the bias is a sum over sequences or heads, which all_gradients does not make.
bool is_sum(const AttentionSizes& sizes, const CudaAttentionPlane& grad_bias);

}  // namespace deckle::kernels::cuda::attention
