#include "deckle/nn/attention_block.h"

#include "deckle/autograd/autocast.h"
#include "deckle/base/check.h"
#include "deckle/core/from_data.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nn {

namespace {

int64_t kv_heads_of(const SelfAttentionOptions& options) { return options.kv_heads == 0 ? options.heads : options.kv_heads; }

int64_t kv_width(const SelfAttentionOptions& options) { return options.d_model / options.heads * kv_heads_of(options); }

const SelfAttentionOptions& check_options(const SelfAttentionOptions& options) {
  check(options.heads >= 1 && options.d_model >= 1 && options.d_model % options.heads == 0,
        "d_model {} is no multiple of {} heads (expected one)", options.d_model, options.heads);
  check((options.d_model / options.heads) % 2 == 0,
        "the head size is {}, {} / {} heads (expected an even one, for rotary positions)", options.d_model / options.heads,
        options.d_model, options.heads);
  check(kv_heads_of(options) >= 1 && options.heads % kv_heads_of(options) == 0,
        "{} heads are no multiple of {} key and value heads (expected one)", options.heads, kv_heads_of(options));
  return options;
}

}  // namespace

SelfAttention::SelfAttention(const SelfAttentionOptions& options, Generator& generator)
    : query(check_options(options).d_model, options.d_model, {.bias = false, .generator = &generator}),
      key(options.d_model, kv_width(options), {.bias = false, .generator = &generator}),
      value(options.d_model, kv_width(options), {.bias = false, .generator = &generator}),
      out(options.d_model, options.d_model, {.bias = false, .scale = options.out_scale, .generator = &generator}),
      head_dim_(options.d_model / options.heads) {}

Plan SelfAttention::plan(const Tensor& x) const {
  const Tensor k = shape_of_heads(x, kv_heads());
  return attention_plan(shape_of_heads(x, query.weight.size(0) / head_dim_), k, k, {.mask = masks::causal()});
}

Plan SelfAttention::plan(const NestedTensor& x) const {
  const NestedTensor k(shape_of_heads(x.values(), kv_heads()), x.ragged());
  return attention_plan(NestedTensor::of_op(shape_of_heads(x.values(), query.weight.size(0) / head_dim_), x), k, k,
                        {.mask = masks::causal()});
}

Plan SelfAttention::plan(const NestedTensor& x, const KeyValueCache& cache) const {
  const NestedTensor q(shape_of_heads(x.values(), query.weight.size(0) / head_dim_), x.ragged());
  // Bottom-right aligned: the last query sees the last key, so the same mask serves a prompt and a single step.
  return attention_plan(q, cache.keys(0), cache.values(0), {.mask = masks::causal(), .key_lengths = cache.lengths()});
}

NestedTensor SelfAttention::operator()(const NestedTensor& x, const RotaryAngles& angles, KeyValueCache& cache, int64_t layer,
                                       const Plan& shared) const {
  const NestedTensor q = rotate(split_heads(query(x)), angles);
  cache.write(layer, rotate(split_heads(key(x)), angles), split_heads(value(x)));
  return out(merge_heads(attention(q, cache.keys(layer), cache.values(layer), {.plan = shared})));
}

Tensor SelfAttention::split_heads(const Tensor& x) const {
  Dims sizes(x.sizes());
  const int64_t heads = sizes.back() / head_dim_;
  sizes.back() = heads;
  sizes.push_back(head_dim_);
  return view(x, sizes);
}

Tensor SelfAttention::shape_of_heads(const Tensor& x, int64_t heads) const {
  Dims sizes(x.sizes());
  sizes.back() = heads;
  sizes.push_back(head_dim_);
  return expand(empty({1}, autocast_dtype().value_or(x.dtype()), x.device()), sizes);
}

Tensor SelfAttention::merge_heads(const Tensor& x) const {
  Dims sizes(x.sizes());
  sizes.pop_back();
  sizes.back() *= head_dim_;
  return view(x, sizes);
}

}  // namespace deckle::nn
