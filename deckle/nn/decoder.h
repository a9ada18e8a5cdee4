#pragma once

#include "deckle/autograd/autocast.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nn/attention_block.h"
#include "deckle/nn/embedding.h"
#include "deckle/nn/feed_forward.h"
#include "deckle/nn/norm.h"
#include "deckle/ops/generated/pointwise.h"

namespace deckle::nn {

struct DecoderOptions {
  int64_t vocab = 256;
  int64_t d_model = 256;
  int64_t depth = 4;
  int64_t heads = 4;
  int64_t kv_heads = 0;  // 0: as many as heads
  int64_t hidden = 0;    // of the feed-forward blocks; 0: 8/3 of d_model, up to a multiple of 32
  double rotary_base = 10'000;
  uint64_t seed = 1;  // of the starting values
};

/// x + attention(norm(x)), then x + feed_forward(norm(x)).
class DecoderBlock final : public Module {
 public:
  DecoderBlock(const DecoderOptions& options, Generator& generator);

  template <TensorLike X>
  X operator()(const X& x, const RotaryAngles& angles, const Plan& plan) const {
    return add_feed_forward(add(x, attention(attention_norm(x), angles, plan)));
  }
  NestedTensor operator()(const NestedTensor& x, const RotaryAngles& angles, KeyValueCache& cache, int64_t layer,
                          const Plan& plan) const {
    return add_feed_forward(add(x, attention(attention_norm(x), angles, cache, layer, plan)));
  }

  DECKLE_MEMBERS(attention_norm, attention, feed_forward_norm, feed_forward);

  RMSNorm attention_norm;
  SelfAttention attention;
  RMSNorm feed_forward_norm;
  SwiGLU feed_forward;

 private:
  template <TensorLike X>
  X add_feed_forward(const X& x) const {
    return add(x, feed_forward(feed_forward_norm(x)));
  }
};

/// A decoder-only transformer over tokens: embedding, blocks, norm, logits. Called on [B, L] integers, ragged or not, it
/// gives logits [B, L, vocab] of the token after each.
class DecoderLM final : public Module {
 public:
  explicit DecoderLM(const DecoderOptions& options = {});

  template <TensorLike X>
  X operator()(const X& tokens) const {
    return call_as("DecoderLM", [&] {
      const RotaryAngles angles = rotary_.angles(tokens, autocast_dtype().value_or(dtype()));
      X x = embedding(tokens);
      const Plan plan = blocks.empty() ? Plan() : blocks[0].attention.plan(x);
      for (const DecoderBlock& block : blocks) x = block(x, angles, plan);
      return head(norm(x));
    });
  }

  /// Mean cross entropy, in nats, of every token but each component's first, given those before it. The tokens may lie on the
  /// CPU wherever the model is. Of a RaggedCapacity too.
  Tensor loss(const NestedTensor& tokens) const;

  /// A cache without sequences; `add` them to it.
  KeyValueCache make_cache() const;
  /// Logits [B, vocab] after `tokens` [B, ragged], one or more for each of the cache's sequences, which follow what the cache
  /// has seen and join it. Without gradients. Wrong tokens of the CPU are errors at once, wherever the model is.
  Tensor next_logits(const NestedTensor& tokens, KeyValueCache& cache) const;

  const DecoderOptions& options() const { return options_; }
  DType dtype() const { return embedding.weight.dtype(); }
  Device device() const { return embedding.weight.device(); }
  DECKLE_MEMBERS(embedding, blocks, norm, head, options_, rotary_);

  Embedding embedding;
  std::vector<DecoderBlock> blocks;
  RMSNorm norm;
  Linear head;

 private:
  DecoderLM(const DecoderOptions& options, Generator generator);

  DecoderOptions options_;
  Rotary rotary_;
};

/// Number of tokens that DecoderLM::loss is a mean over.
int64_t predicted_tokens(const NestedTensor& tokens);

}  // namespace deckle::nn
