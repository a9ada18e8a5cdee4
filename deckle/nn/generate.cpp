#include "deckle/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nn {

namespace {

constexpr int64_t kFirstCapacity = 256;  // positions; doubled when full

/// Uniform in [0, 1), 53 random bits.
double uniform(Generator& generator) {
  const auto words = generator.reserve(4).block(0);
  const uint64_t bits = (uint64_t{words[1]} << 32) | words[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

int64_t sample_symbol(const Tensor& logits, const SampleOptions& options, Generator& generator) {
  check(logits.dim() == 1 && logits.numel() > 0, "expected logits [vocab], got shape {}", to_string(logits.sizes()));
  check(options.temperature >= 0, "the temperature is {} (expected 0 or more)", options.temperature);
  check(options.top_k >= 0, "top_k is {} (expected 0 or more)", options.top_k);
  const std::vector<double> scores = logits.to_vector();
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  // Ties go to the smaller symbol, so that results do not depend on the sorting.
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return std::pair(-scores[static_cast<size_t>(a)], a) < std::pair(-scores[static_cast<size_t>(b)], b);
  });
  if (options.temperature == 0) return order[0];
  const size_t kept = options.top_k == 0 ? order.size() : std::min(order.size(), static_cast<size_t>(options.top_k));
  std::vector<double> sums(kept);
  double total = 0;
  for (size_t i = 0; i < kept; ++i) {
    total += std::exp((scores[static_cast<size_t>(order[i])] - scores[static_cast<size_t>(order[0])]) / options.temperature);
    sums[i] = total;
  }
  const double point = uniform(generator) * total;
  const auto found = std::upper_bound(sums.begin(), sums.end(), point);
  return order[std::min(static_cast<size_t>(found - sums.begin()), kept - 1)];
}

SequenceSampler::SequenceSampler(const DecoderLM& model, std::span<const int64_t> prompt, const SampleOptions& options, Generator& generator)
    : model_(model), options_(options), generator_(generator), pending_(prompt.begin(), prompt.end()) {
  check(!pending_.empty(), "a prompt needs at least one symbol");
  for (const int64_t symbol : pending_) {
    check(symbol >= 0 && symbol < model.options().vocab, "the prompt has the symbol {}, the vocabulary {} symbols", symbol, model.options().vocab);
  }
}

void SequenceSampler::make_room(int64_t count) {
  if (cache_.length + count <= capacity_) return;
  capacity_ = std::max({kFirstCapacity, 2 * capacity_, cache_.length + count});
  KeyValueCache larger = model_.make_cache(1, capacity_);
  for (size_t i = 0; i < cache_.layers.size() && cache_.length > 0; ++i) {
    slice(larger.layers[i].keys, 1, 0, cache_.length).copy_(slice(cache_.layers[i].keys, 1, 0, cache_.length));
    slice(larger.layers[i].values, 1, 0, cache_.length).copy_(slice(cache_.layers[i].values, 1, 0, cache_.length));
  }
  larger.length = cache_.length;
  cache_ = std::move(larger);
}

int64_t SequenceSampler::next() {
  const NoGrad no_grad;
  const auto count = static_cast<int64_t>(pending_.size());
  make_room(count);
  const Tensor symbols = empty({1, count}, DType::int64);
  std::copy(pending_.begin(), pending_.end(), symbols.data<int64_t>());
  const Tensor logits = model_.next_logits(symbols, cache_);
  const int64_t symbol = sample_symbol(select(logits, 0, 0), options_, generator_);
  pending_ = {symbol};
  return symbol;
}

}  // namespace deckle::nn
