// Plain arguments of the CUDA attention kernels, shared by forward and backward. Everything points to device memory.
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels {

/// Element type of q, k, v, out and their gradients; arithmetic is in float32.
enum class AttentionElement : int32_t { bf16 = 0, f16 = 1 };

/// A [B, L, H, D] tensor, or [sum of L, H, D] if ragged. Strides in elements; D is contiguous, the other strides are positive
/// multiples of 8 (the copy engine knows no expanded dims; those of one element may have any stride) and the address is one of 16
/// bytes. Null only if empty.
struct AttentionTensor {
  void* data = nullptr;
  int64_t batch_stride = 0;  // unused if ragged
  int64_t row_stride = 0;
  int64_t head_stride = 0;
};

inline constexpr int32_t kUnboundedWindow = 1 << 30;

/// Every query row attends one interval of keys. With c = row (+ N - M if bottom_right): [max(0, c - left), min(N, c + right +
/// 1)). Full: both unbounded, which is any value from kUnboundedWindow on. Causal: right = 0. A row with an empty interval gets
/// zeros and LSE = -inf.
struct AttentionWindow {
  int32_t left = kUnboundedWindow;
  int32_t right = kUnboundedWindow;
  bool bottom_right = true;
};

/// The kernels of tensor cores compute a cap as c - 2 c / (1 + e^(2 x)), which errs by c 2^-23: up to this one by less than what
/// a weight rounds to in 16 bits.
inline constexpr int32_t kMostSoftCap = 1 << 12;

/// Sizes. Ragged if the offsets are given: int64 [batch + 1] on the device, non-decreasing from 0; query and key lengths may
/// differ and be zero; rows past the last offset are neither read nor written. Then query_rows and key_rows are the total rows
/// allocated, and offsets beyond them count as these. Where offsets decrease, nothing is computed.
///
/// key_lengths, only if ragged: int64 [batch] on the device. The first so many of the rows that its offsets give a sequence are
/// its keys; the others are spare (a cache that grows, padding): they have no part in anything, whatever they hold, and gradient
/// 0. A dense batch whose keys have lengths is a ragged one of equal offsets.
struct AttentionSizes {
  int32_t batch = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;  // divides heads; query head h reads kv head h / (heads / kv_heads)
  int32_t head_dim = 0;
  int32_t value_dim = 0;
  int64_t query_rows = 0;  // M, or all query rows of the batch
  int64_t key_rows = 0;    // N, or all key rows of the batch
  const int64_t* query_offsets = nullptr;
  const int64_t* key_offsets = nullptr;
  const int64_t* key_lengths = nullptr;  // null: all rows are keys
  int32_t most_queries = 0;  // ragged: no sequence has more query rows; 0: not told. Kernels for few rows want to know
  int32_t most_keys = 0;     // the same of keys

  bool ragged() const { return query_offsets != nullptr; }
};

/// Whether the Hopper kernels compiled for one pair of head dims serve another, smaller one: multiples of 8 that take as many
/// panels of 64 columns. The copy engine fills the columns that a tensor does not have with zeros, and stores none of them.
constexpr bool compiled_dims_serve(int64_t compiled_head, int64_t compiled_value, int64_t head, int64_t value) {
  const auto serves = [](int64_t compiled, int64_t dim) {
    return dim > 0 && dim % 8 == 0 && dim <= compiled && (dim + 63) / 64 == (compiled + 63) / 64;
  };
  return serves(compiled_head, head) && serves(compiled_value, value);
}

/// An element for each (sequence, head, query row, key): a bias of the problem's element type, or a mask of bytes, 0 where a key
/// is forbidden. Dense: [batch, heads, rows, columns], which cover every sequence; a dim of one element has stride 0 and serves
/// all. Ragged (`offsets`, int64 [batch] on the device): sequence b holds [heads or 1, its rows or 1, its keys or 1] densely from
/// offsets[b] on, behind those before it, and of the strides counts only whether they are 0.
struct CudaAttentionPlane {
  void* data = nullptr;  // null: none
  int64_t sequence_stride = 0, head_stride = 0, row_stride = 0, column_stride = 0;
  int32_t rows = 1, columns = 1;  // dense
  const int64_t* offsets = nullptr;
  int64_t elements = 0;  // ragged: of all sequences
};

/// What forward and backward have in common.
struct CudaAttentionProblem {
  int32_t device = -1;  // on which everything lies, the stream too; -1: the current one
  AttentionElement element = AttentionElement::bf16;
  AttentionSizes sizes;
  AttentionWindow mask;
  float scale = 1.0f;  // scores = scale * q kᵀ; any finite value
  AttentionTensor q, k, v, out;
  /// One more logit of every row, without a value, float32 [heads] on the device; null: none. A row that attends no key then has
  /// the sink as its LSE.
  const float* sinks = nullptr;
  float soft_cap = 0;             // c > 0: scores are c tanh(scale q k / c); 0: none
  const float* slopes = nullptr;  // [heads] on the device: scores less slope * |key position - query position|; null: none
  AttentionDropout dropout;       // by the contract of docs/attention.md, as on every device
  /// [2] on the device, for work of a graph, whose seed and offset each replay has of its own; null: made of these.
  const uint32_t* dropout_key = nullptr;
  CudaAttentionPlane bias;       // added to the scores, behind the soft cap
  bool bias_before_cap = false;  // or to its argument
  /// [heads, 2 table_reach + 1] on the device, added by key position - query position clamped to the reach; null: none.
  const float* table = nullptr;
  int64_t table_reach = 0;
  /// And-ed with `mask`. The bounds lie on the device, of every packed query row (dense: of row b M + i).
  AttentionRanges ranges;
  CudaAttentionPlane forbidden;  // a mask of bytes, and-ed as well
  /// Log-sum-exp of each row of scores, natural log, float32, contiguous: [B, M, H], or [query_rows, H] if ragged. Forward writes
  /// it unless null.
  float* lse = nullptr;
  /// Scratch of at least *_workspace_bytes, 256-byte aligned, not shared by launches that may overlap. Its contents need no
  /// preparation.
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
  /// Ragged: what attention_make_plan wrote for the same sizes, offsets, lengths, mask, element type and kind of features
  /// (attention_plan_kind), so that all layers and passes share one. Null: each launch decodes the offsets again.
  const void* plan = nullptr;
};

struct AttentionBackward {
  CudaAttentionProblem problem;  // out and lse as forward wrote them
  AttentionTensor grad_out;
  const float* grad_lse = nullptr;  // laid out as lse; null: zero
  AttentionTensor grad_q, grad_k, grad_v;
  float* grad_sinks = nullptr;   // [heads]; null: not wanted, or no sinks
  float* grad_slopes = nullptr;  // the same of slopes
  float* grad_table = nullptr;   // the same of the table
  /// Of the bias and its shape, summed to it; null: not wanted. Elements of no sequence's rows and keys get 0.
  CudaAttentionPlane grad_bias;
};

}  // namespace deckle::kernels
