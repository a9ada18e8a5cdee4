#include "deckle/nn/decoder.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/kept.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/capacity.h"
#include "deckle/nested/kept_rows.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nn {

namespace {

/// Residual branches start smaller in deep models, so that the sum of all of them does not. Radford et al., 2019.
double branch_scale(const DecoderOptions& options) { return 1 / std::sqrt(2.0 * static_cast<double>(options.depth)); }

int64_t hidden_of(const DecoderOptions& options) {
  return options.hidden > 0 ? options.hidden : (options.d_model * 8 / 3 + 31) / 32 * 32;
}

const DecoderOptions& check_options(const DecoderOptions& options) {
  call_as("DecoderOptions", [&] {
    check(options.vocab >= 1 && options.d_model >= 1 && options.depth >= 0 && options.heads >= 1,
          "vocab {}, d_model {}, depth {}, heads {} (expected 1 or more, depth 0 or more)", options.vocab, options.d_model,
          options.depth, options.heads);
    check(options.d_model % options.heads == 0, Argument{"d_model"}, "is {}, no multiple of {} heads (expected one)",
          options.d_model, options.heads);
  });
  return options;
}

constexpr int64_t kNoTarget = -100;

/// The tokens of every component but its first (`from` = 1) or last (`from` = 0), packed: `count` of the host's `tokens`.
Tensor shift_tokens(const Tensor& tokens, const RaggedShape& shape, int64_t count, int64_t from) {
  const Tensor result = empty({count}, tokens.dtype());
  const int64_t bytes = item_size(tokens.dtype());
  const auto* const source = static_cast<const char*>(tokens.raw_data());
  auto* to = static_cast<char*>(result.raw_data());
  for (int64_t b = 0; b < shape.components(); ++b) {
    if (shape.size(b) < 2) continue;
    const int64_t length = (shape.size(b) - 1) * bytes;
    std::memcpy(to, source + (shape.offset(b) + from) * bytes, static_cast<size_t>(length));
    to += length;
  }
  return result;
}

/// Of the components without their last tokens.
Ragged without_last(const Ragged& ragged) {
  return kept_shape(*ragged, "without the last row", {}, [&] {
    std::vector<int64_t> lengths(ragged->sizes().begin(), ragged->sizes().end());
    for (int64_t& length : lengths) length = std::max<int64_t>(length - 1, 0);
    return Ragged::from_lengths(lengths);
  });
}

/// The rows of all tokens but the last of each component.
Tensor rows_without_last(const Ragged& ragged) {
  return kept_value(*ragged, "rows but the last", {}, [&] {
    std::vector<int64_t> rows;
    for (int64_t b = 0; b < ragged->components(); ++b) {
      for (int64_t row = ragged->offset(b); row + 1 < ragged->offset(b + 1); ++row) rows.push_back(row);
    }
    return nested::index_tensor(rows);
  });
}

}  // namespace

DecoderBlock::DecoderBlock(const DecoderOptions& options, Generator& generator)
    : attention_norm(options.d_model),
      attention(
          {.d_model = options.d_model, .heads = options.heads, .kv_heads = options.kv_heads, .out_scale = branch_scale(options)},
          generator),
      feed_forward_norm(options.d_model),
      feed_forward(options.d_model, hidden_of(options), branch_scale(options), generator) {}

DecoderLM::DecoderLM(const DecoderOptions& options) : DecoderLM(check_options(options), Generator(options.seed)) {}

DecoderLM::DecoderLM(const DecoderOptions& options, Generator generator)
    : embedding(options.vocab, options.d_model,
                {.standard_deviation = 1 / std::sqrt(static_cast<double>(options.d_model)), .generator = &generator}),
      norm(options.d_model),
      head(options.d_model, options.vocab, {.bias = false, .scale = 0.5, .generator = &generator}),
      options_(options),
      rotary_(options.d_model / options.heads, options.rotary_base) {
  for (int64_t i = 0; i < options.depth; ++i) blocks.emplace_back(options, generator);
}

/// Tokens of the host, before a GPU gets them: it would tell of a wrong one at a later wait, and go on until then.
void check_tokens(const Tensor& tokens, int64_t vocab) {
  if (tokens.device().is_cuda() || tokens.numel() == 0 || is_floating(tokens.dtype())) return;
  for (const int64_t token : {amin(tokens).item<int64_t>(), amax(tokens).item<int64_t>()})
    check(token >= 0 && token < vocab, Argument{"tokens"}, "have token {}, which is out of range (expected 0..{})", token,
          vocab - 1);
}

int64_t predicted_tokens(const NestedTensor& tokens) {
  if (tokens.ragged_dims() != 1 || tokens.values().dim() != 1)
    fail(Argument{"tokens"}, "have shape {} (expected [B, ragged])", to_string(tokens));
  int64_t count = 0;
  for (const int64_t length : tokens.ragged()->sizes()) count += std::max<int64_t>(length - 1, 0);
  return count;
}

Tensor DecoderLM::loss(const NestedTensor& tokens) const try {
  if (nested::on_device_alone(tokens.ragged())) {
    // Every token is an input, and the last of each component has nothing to predict.
    const Tensor next = row_places(tokens.ragged()).next, following = index_select(tokens.values(), 0, clamp_min(next, 0));
    return cross_entropy((*this)(tokens).values(), where(ge(next, 0), following, kNoTarget), {.ignore_index = kNoTarget});
  }
  const int64_t count = predicted_tokens(tokens);
  check(count > 0, "no component has two tokens (expected one that has, for the loss)");
  const RaggedShape& shape = *tokens.ragged();
  Tensor given, following;
  if (tokens.values().device().is_cuda()) {  // the host knows the rows, so it need not read the tokens
    const OnDevice there(device());
    const Tensor values = tokens.values().to(device()), rows = rows_without_last(tokens.ragged());
    given = index_select(values, 0, rows);
    following = index_select(values, 0, rows + 1);
  } else {
    const Tensor packed = contiguous(tokens.values());
    if (device().is_cuda()) check_tokens(packed, options_.vocab);
    given = shift_tokens(packed, shape, count, 0).to(device());
    following = shift_tokens(packed, shape, count, 1).to(device());
  }
  return cross_entropy((*this)(NestedTensor(given, without_last(tokens.ragged()))).values(), following);
} catch (...) {
  rethrow_from("DecoderLM::loss");
}

KeyValueCache DecoderLM::make_cache() const {
  const int64_t kv_heads = options_.kv_heads == 0 ? options_.heads : options_.kv_heads;
  return {std::ssize(blocks), kv_heads, options_.d_model / options_.heads, autocast_dtype().value_or(dtype()), device()};
}

Tensor DecoderLM::next_logits(const NestedTensor& tokens, KeyValueCache& cache) const {
  if (tokens.ragged_dims() != 1 || tokens.dim() != 2)
    fail(Argument{"tokens"}, "have shape {} (expected [B, ragged])", to_string(tokens));
  check(tokens.components() == cache.sequences(), "tokens of {} sequences, the cache has {} (expected as many)",
        tokens.components(), cache.sequences());
  const RaggedShape& shape = *tokens.ragged();
  const Tensor last = empty({shape.components()}, DType::int64);
  for (int64_t b = 0; b < shape.components(); ++b) {
    check(shape.size(b) > 0, "no token of sequence {} (expected one or more of each)", b);
    last.data<int64_t>()[b] = shape.offsets()[static_cast<size_t>(b) + 1] - 1;
  }
  if (device().is_cuda()) check_tokens(tokens.values(), options_.vocab);
  const NoGrad no_grad;
  NestedTensor x = embedding(tokens.to(device()));
  const RotaryAngles angles = rotary_.angles(x, autocast_dtype().value_or(dtype()), cache.lengths());
  const std::vector<int64_t> before = cache.lengths();
  cache.extend(shape.sizes());
  try {
    const Plan plan = blocks.empty() ? Plan() : blocks[0].attention.plan(x, cache);
    for (int64_t i = 0; i < std::ssize(blocks); ++i) x = blocks[static_cast<size_t>(i)](x, angles, cache, i, plan);
    return head(norm(index_select(x.values(), 0, last.to(device()))));
  } catch (...) {  // positions whose rows were not written are none
    cache.truncate(before);
    throw;
  }
}

}  // namespace deckle::nn
