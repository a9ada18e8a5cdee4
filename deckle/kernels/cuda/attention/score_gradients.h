// dS of a dense batch, kept in memory for the gradient of a bias that is a sum over heads or sequences: the kernel of all
// gradients stores it as it would the gradient of a bias of its full shape, and sum_score_gradients (bias_gradient.h) adds it up.
// What does not fit the memory for it at once takes turns.
#pragma once

#include <cstdint>
#include <vector>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

inline constexpr int kScoreChunk = 8;  // keys of 16 bytes, of which a row has a whole number

/// Of dS, while it lies in memory, and of panels of a bias and of its gradient, unless those of one kv head take more.
inline constexpr int64_t kMostScoreBytes = int64_t{1} << 30;

/// Where it lies in `memory`: a plane for each of `heads` heads of each sequence.
inline CudaAttentionPlane score_gradients(const AttentionSizes& sizes, int heads, void* memory) {
  CudaAttentionPlane plane;
  plane.data = memory;
  plane.rows = static_cast<int32_t>(sizes.query_rows);
  plane.columns = static_cast<int32_t>(sizes.key_rows);
  plane.column_stride = 1;
  plane.row_stride = (sizes.key_rows + kScoreChunk - 1) / kScoreChunk * kScoreChunk;
  plane.head_stride = plane.row_stride * sizes.query_rows;
  plane.sequence_stride = plane.head_stride * heads;
  return plane;
}

/// Of one head of one sequence.
inline int64_t score_gradient_bytes(const AttentionSizes& sizes) {
  return int64_t{sizeof(uint16_t)} * score_gradients(sizes, 1, nullptr).head_stride;
}

/// The planes that lie in memory at once: of some heads of one sequence, or of all heads of some sequences.
struct ScoreTurn {
  int first_sequence, sequences, first_head, heads;
  bool first, last;  // of those that add to the same elements of the gradient
};

/// The turns of a batch. Each element of the gradient is the sum of sequence after sequence and in each head after head, as it
/// would be in one turn.
struct ScoreTurns {
  ScoreTurns() = default;  // none

  /// `unit`: heads that the kernel works on as one. None where dS of these does not fit.
  ScoreTurns(const AttentionSizes& sizes, const CudaAttentionPlane& grad_bias, int unit);

  int sequences = 0, heads = 0;  // of a turn; the last ones may have fewer
  int count = 0;
  int64_t bytes = 0;      // of dS
  int64_t sum_bytes = 0;  // of the float32 sums that wait between turns

  std::vector<ScoreTurn> list() const;

 private:
  int all_sequences_ = 0, all_heads_ = 0;
  bool of_sequences_ = false, of_heads_ = false;  // of the gradient: what is not is summed
};

}  // namespace deckle::kernels::cuda::attention
