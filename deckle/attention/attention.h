#pragma once

#include <optional>
#include <utility>

#include "deckle/attention/mask.h"
#include "deckle/core/tensor.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle {

struct AttentionOptions {
  AttentionMask mask = masks::full();
  std::optional<double> scale;  // of the logits; default 1 / sqrt(D)
};

/// softmax(scale · q kᵀ + mask) v per head, fused over tiles: neither scores nor padding are ever stored.
///   q [B, M, H, D], k [B, N, Hk, D], v [B, N, Hk, Dv] -> [B, M, H, Dv]; H is a multiple of Hk (query head h reads key head
///   h / (H / Hk)). float32 or float64, all of one dtype. A query that may see no key gives 0, and gradients 0.
/// Dao et al., "FlashAttention", 2022; derivatives: docs/attention.md.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});

/// As above, sequence by sequence: q [B, M_b, H, D], k and v [B, N_b, Hk, D or Dv] with equal numbers of components; the
/// lengths of q and k may differ (cross attention), those of k and v must agree. Empty sequences are fine.
NestedTensor attention(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v, const AttentionOptions& options = {});

/// Also returns log-sum-exp of the masked logits, natural log: [B, M, H], or nested [B, M_b, H]. Differentiable.
std::pair<Tensor, Tensor> attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
std::pair<NestedTensor, NestedTensor> attention_with_lse(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v,
                                                         const AttentionOptions& options = {});

}  // namespace deckle
