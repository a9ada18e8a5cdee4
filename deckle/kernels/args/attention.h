#pragma once

#include <array>
#include <cstdint>

#include "deckle/base/dtype.h"
#include "deckle/base/philox.h"

namespace deckle {

/// Where the diagonal of causal masks, windows and ALiBi lies when a sequence has M query and N key rows: query i stands
/// at key position i (top_left) or i + N - M (bottom_right).
enum class AttentionAlignment : uint8_t { top_left, bottom_right };

/// Rows of heads: element d of head h of packed row t is data[t * row_stride + h * head_stride + d]. A null pointer means that
/// this input has no tangent, or that this gradient is not wanted.
struct AttentionRows {
  void* data = nullptr;
  int64_t row_stride = 0;
  int64_t head_stride = 0;
};

/// One number per (sequence, head, query row, key row); a stride of 0 broadcasts that dim, and in a gradient sums over it.
/// Ragged biases (AttentionProblem::bias_offsets) keep only whether a stride is 0; the values follow from the lengths:
/// sequence b holds [heads or 1, M_b or 1, N_b or 1] densely from bias_offsets[b] on.
struct AttentionPlane {
  void* data = nullptr;
  int64_t sequence_stride = 0;
  int64_t head_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;

  bool operator==(const AttentionPlane&) const = default;
};

/// Everything that attention is differentiated by. One type serves the values, their tangents and their gradients:
/// dtype is the problem's for q, k, v and bias, the statistics dtype (below) for slopes, sinks and table.
struct AttentionOperands {
  AttentionRows q = {};      // [Tq, heads, head_dim]
  AttentionRows k = {};      // [Tk, kv_heads, head_dim]
  AttentionRows v = {};      // [Tk, kv_heads, value_dim]
  AttentionPlane bias = {};  // added to the logits
  void* slopes = nullptr;    // [heads], ALiBi: logit -= slope * |distance|
  void* sinks = nullptr;     // [heads], one more logit per row, without a value
  void* table = nullptr;     // [heads, 2 * table_reach + 1], added by clamped distance (key position - query position)
};

/// What attention returns; one type serves the values, their tangents and their cotangents.
/// lse is the natural log of the row sums, [Tq, heads] contiguous, of the statistics dtype; null where not given.
struct AttentionResults {
  AttentionRows out = {};  // [Tq, heads, value_dim]
  void* lse = nullptr;
};

/// Allowed keys of a query row as a union of half-open ranges, for masks that no formula below expresses.
struct AttentionRanges {
  const int32_t* bounds = nullptr;  // [Tq, count, 2]: begin, end in keys of the sequence; ascending, disjoint; empty = (0, 0)
  int count = 0;

  bool operator==(const AttentionRanges&) const = default;
};

/// Dropout on the probabilities by a frozen, position-keyed Philox contract (docs/attention.md): a pure function of seed,
/// offset, sequence, head, row and column. The probability is threshold / 256.
struct AttentionDropout {
  int threshold = 0;  // 0..256; keep iff random byte >= threshold
  uint64_t seed = 0;
  uint64_t offset = 0;
  const uint64_t* standing = nullptr;  // as in a PhiloxStream
  int64_t first_sequence = 0;          // global index of sequence 0, head 0, row 0, column 0: for sharded problems
  int64_t first_head = 0;
  int64_t first_row = 0;
  int64_t first_column = 0;

  /// The third word of the counter that the key is made of, which no random op counts to.
  static constexpr uint32_t kKeyDomain = 0x44524F50u;
  /// The key of the calls that decide.
  std::array<uint32_t, 2> key() const {
    const auto words = Philox<10>::generate({static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32), kKeyDomain, 0},
                                            static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    return {words[0], words[1]};
  }

  bool operator==(const AttentionDropout&) const = default;
};

/// One attention call without its data: shared by forward, backward and every derivative, so that they cannot disagree.
/// Sequence b has query rows q_offsets[b] .. + M_b and key rows k_offsets[b] .. + N_b of the packed operands, where
/// M_b = q_lengths ? q_lengths[b] : q_offsets[b + 1] - q_offsets[b] (likewise N_b). Query head h reads key head
/// h / (heads / kv_heads). Statistics (lse, slopes, sinks, table) are float64 for float64 problems, else float32.
struct AttentionProblem {
  DType dtype = DType::float32;
  int64_t sequences = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t value_dim = 0;
  const int64_t* q_offsets = nullptr;
  const int64_t* k_offsets = nullptr;
  const int64_t* q_lengths = nullptr;
  const int64_t* k_lengths = nullptr;
  /// The offsets where the host does not know them: on the device, and the host's are null. Then rows() and keys() are the most
  /// that a sequence may have.
  const int64_t* device_q_offsets = nullptr;
  const int64_t* device_k_offsets = nullptr;
  int64_t most_rows = 0, most_keys = 0;
  double scale = 1.0;

  AttentionAlignment alignment = AttentionAlignment::bottom_right;
  bool causal = false;
  int64_t window_left = -1;  // keys visible before the query's position; negative: no limit
  int64_t window_right = -1;
  AttentionRanges ranges;                 // and-ed with the rules above
  AttentionPlane mask;                    // uint8, 0 = forbidden, and-ed as well; data null: none
  const int64_t* bias_offsets = nullptr;  // the bias is ragged: [sequences]
  bool bias_before_cap = false;
  double soft_cap = 0.0;  // 0: none
  int64_t table_reach = 0;
  AttentionDropout dropout;
  /// [sequences], set by the plan: sequences with a nonzero entry run their forward in the CPU's decoding kernel. Null: none.
  const uint8_t* decoded = nullptr;

  int64_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }
  bool known() const { return device_q_offsets == nullptr; }
  int64_t rows(int64_t b) const { return q_lengths ? q_lengths[b] : q_offsets ? q_offsets[b + 1] - q_offsets[b] : most_rows; }
  int64_t keys(int64_t b) const { return k_lengths ? k_lengths[b] : k_offsets ? k_offsets[b + 1] - k_offsets[b] : most_keys; }
  int64_t diagonal(int64_t b) const { return alignment == AttentionAlignment::top_left ? 0 : keys(b) - rows(b); }

  bool operator==(const AttentionProblem&) const = default;
};

}  // namespace deckle
