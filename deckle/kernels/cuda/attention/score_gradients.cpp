#include "deckle/kernels/cuda/attention/score_gradients.h"

#include <algorithm>

namespace deckle::kernels::cuda::attention {
namespace {

constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// Parts of `all`, as equal as they can be, of at most `most` each.
int equal_parts(int64_t all, int64_t most) { return static_cast<int>(divide_up(all, divide_up(all, std::min(all, most)))); }

}  // namespace

ScoreTurns::ScoreTurns(const AttentionSizes& sizes, const CudaAttentionPlane& grad_bias, int unit)
    : all_sequences_(sizes.batch),
      all_heads_(sizes.heads),
      of_sequences_(grad_bias.sequence_stride != 0),
      of_heads_(grad_bias.head_stride != 0) {
  const int64_t head_bytes = score_gradient_bytes(sizes), units = sizes.heads / unit;
  if (sizes.batch == 0 || units == 0 || head_bytes == 0) return;
  const int64_t most = kMostScoreBytes / (head_bytes * unit);
  if (most == 0) return;
  const bool whole = most >= units;
  sequences = whole ? equal_parts(sizes.batch, most / units) : 1;
  heads = unit * (whole ? static_cast<int>(units) : equal_parts(units, most));
  count = static_cast<int>(divide_up(all_sequences_, sequences) * divide_up(all_heads_, heads));
  bytes = head_bytes * heads * sequences;
  const bool waits = (sequences < all_sequences_ && !of_sequences_) || (heads < all_heads_ && !of_heads_);
  if (waits) sum_bytes = int64_t{sizeof(float)} / int64_t{sizeof(uint16_t)} * head_bytes * (of_heads_ ? heads : 1);
}

std::vector<ScoreTurn> ScoreTurns::list() const {
  std::vector<ScoreTurn> turns;
  if (count == 0) return turns;
  const auto add = [&](int sequence, int head) {
    ScoreTurn turn{sequence, std::min(sequences, all_sequences_ - sequence), head, std::min(heads, all_heads_ - head)};
    turn.first = (of_sequences_ || sequence == 0) && (of_heads_ || head == 0);
    turn.last = (of_sequences_ || sequence + turn.sequences == all_sequences_) && (of_heads_ || head + turn.heads == all_heads_);
    turns.push_back(turn);
  };
  // Sums wait of as few elements as can be.
  if (of_heads_) {
    for (int head = 0; head < all_heads_; head += heads) {
      for (int sequence = 0; sequence < all_sequences_; sequence += sequences) add(sequence, head);
    }
  } else {
    for (int sequence = 0; sequence < all_sequences_; sequence += sequences) {
      for (int head = 0; head < all_heads_; head += heads) add(sequence, head);
    }
  }
  return turns;
}

}  // namespace deckle::kernels::cuda::attention
