#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deckle/attention/mask.h"
#include "deckle/core/generator.h"
#include "deckle/core/tensor.h"
#include "deckle/kernels/args/attention_plan.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle {

/// What attention does besides softmax(scale q kᵀ) v, in any combination. With logits x = scale q·k of a head:
///   z = soft_cap tanh(x / soft_cap) + bias - slopes |distance| + table[distance]   (bias inside the tanh if bias_before_cap)
///   z = -inf where the mask forbids;  the softmax of a row runs over its z and the head's sink.
/// distance = key position - query position, where the query stands as the mask's alignment says (bottom-right if it has none).
struct AttentionOptions {
  AttentionMask mask = masks::full();
  std::optional<double> scale = {};  // of the logits; default 1 / sqrt(D)
  Tensor bias = {};                  // [B, H, M, N], any of them 1, of q's dtype; its gradient has its shape
  NestedTensor ragged_bias = {};     // [B, M_b, N_b]: one plane per sequence, for all heads; instead of `bias`
  bool bias_before_cap = false;
  Tensor slopes = {};              // [H], ALiBi (Press et al., 2022); float32, or float64 for float64 inputs
  Tensor table = {};               // [H, 2 R + 1], added by distance, clamped to -R..R; dtype as slopes
  Tensor sinks = {};               // [H], one more logit per row that has no value; dtype as slopes
  double soft_cap = 0;             // 0: none
  double dropout = 0;              // of the probabilities, rounded to a multiple of 1/256
  Generator* generator = nullptr;  // of the dropout; default: the thread's
  std::vector<int64_t> key_lengths =
      {};          // k and v have spare rows (a cache, padding): only the first key_lengths[b] of sequence b are keys
  Plan plan = {};  // of attention_plan(): in place of mask and key_lengths
};

/// The mask and the lengths of a batch, made ready once for all layers that attend alike: attention(q, k, v, {.plan = plan}) does
/// not compile the mask again. Of `options`, mask and key_lengths count; calls bring the others. Serves operands with as many
/// heads and the same rows and keys as q, k and v.
Plan attention_plan(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
Plan attention_plan(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v, const AttentionOptions& options = {});

/// Attention per head, fused over tiles: neither scores nor padding are stored.
///   q [B, M, H, D], k [B, N, Hk, D], v [B, N, Hk, Dv] -> [B, M, H, Dv]; H is a multiple of Hk (query head h reads key head
///   h / (H / Hk)). All of one floating dtype. A query that may see no key gives 0, and gradients 0.
/// Differentiable in q, k, v, bias, slopes, table and sinks, in reverse, forward and second order, in memory linear in M + N
/// (on a GPU the gradient of a bias that is shared or ragged takes up to 1 GiB more, and float32 sums where that is not enough).
/// Dao et al., "FlashAttention", 2022; derivatives: docs/attention.md.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// As above, sequence by sequence: q [B, M_b, H, D], k and v [B, N_b, Hk, D or Dv] with equal numbers of components; the
/// lengths of q and k may differ (cross attention), those of k and v must agree. Empty sequences are fine.
NestedTensor attention(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v, const AttentionOptions& options = {});

/// What attention(q, k, v, options) would run: the kernel of each pass, and why the others are refused.
std::string explain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
std::string explain_attention(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v,
                              const AttentionOptions& options = {});

/// Also returns log-sum-exp of each row's z, the sink included, natural log: [B, M, H], or nested [B, M_b, H]; float32, or
/// float64 for float64 inputs. Differentiable as well.
std::pair<Tensor, Tensor> attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v,
                                             const AttentionOptions& options = {});
std::pair<NestedTensor, NestedTensor> attention_with_lse(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v,
                                                         const AttentionOptions& options = {});

}  // namespace deckle
