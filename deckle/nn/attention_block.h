#pragma once

#include "deckle/attention/attention.h"
#include "deckle/nn/cache.h"
#include "deckle/nn/linear.h"
#include "deckle/nn/module.h"
#include "deckle/nn/rotary.h"

namespace deckle::nn {

struct SelfAttentionOptions {
  int64_t d_model = 0;
  int64_t heads = 1;
  int64_t kv_heads = 0;  // 0: as many as heads; else a divisor of heads
  double out_scale = 1;  // of the starting values of the last product
};

/// Causal self-attention with rotary positions.
class SelfAttention final : public Module {
 public:
  SelfAttention(const SelfAttentionOptions& options, Generator& generator);

  /// What all layers that attend over rows like those of x share; of a cache, after it was extended for x.
  Plan plan(const Tensor& x) const;
  Plan plan(const NestedTensor& x) const;
  Plan plan(const NestedTensor& x, const KeyValueCache& cache) const;

  /// x [B, L, d_model], ragged or not.
  template <TensorLike X>
  X operator()(const X& x, const RotaryAngles& angles, const Plan& shared) const {
    const X q = rotate(split_heads(query(x)), angles);
    const X k = rotate(split_heads(key(x)), angles);
    return out(merge_heads(attention(q, k, split_heads(value(x)), {.plan = shared})));
  }
  template <TensorLike X>
  X operator()(const X& x, const RotaryAngles& angles) const {
    return (*this)(x, angles, plan(x));
  }

  /// As above for the last positions of a cache, by which it was extended for x; their keys and values go to the given layer of
  /// it.
  NestedTensor operator()(const NestedTensor& x, const RotaryAngles& angles, KeyValueCache& cache, int64_t layer,
                          const Plan& shared) const;

  DECKLE_MEMBERS(query, key, value, out, head_dim_);

  int64_t kv_heads() const { return key.weight.size(0) / head_dim_; }
  int64_t head_dim() const { return head_dim_; }

  Linear query;
  Linear key;
  Linear value;
  Linear out;

 private:
  /// [..., heads * D] -> [..., heads, D], and back.
  Tensor split_heads(const Tensor& x) const;
  NestedTensor split_heads(const NestedTensor& x) const { return NestedTensor::of_op(split_heads(x.values()), x); }
  Tensor merge_heads(const Tensor& x) const;
  NestedTensor merge_heads(const NestedTensor& x) const { return NestedTensor::of_op(merge_heads(x.values()), x); }
  /// [..., heads, D] beside x [..., d_model], without memory of its own: plans read shapes alone.
  Tensor shape_of_heads(const Tensor& x, int64_t heads) const;

  int64_t head_dim_;
};

}  // namespace deckle::nn
