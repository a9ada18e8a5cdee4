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

/// Uniform in [0, 1), 53 random bits.
double uniform(Generator& generator) {
  const auto words = generator.reserve(4).block(0);
  const uint64_t bits = (uint64_t{words[1]} << 32) | words[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

int64_t sample_token(const Tensor& logits, const SampleOptions& options, Generator& generator) {
  check(logits.dim() == 1 && logits.numel() > 0, Argument{"logits"}, "have shape {} (expected [vocab])", logits.sizes());
  check(options.temperature >= 0, Argument{"temperature"}, "is {} (expected 0 or more)", options.temperature);
  check(options.top_k >= 0, Argument{"top_k"}, "is {} (expected 0 or more)", options.top_k);
  const std::vector<double> scores = logits.to_vector();
  // Ties go to the smaller token.
  const auto before = [&](int64_t a, int64_t b) {
    return std::pair(-scores[static_cast<size_t>(a)], a) < std::pair(-scores[static_cast<size_t>(b)], b);
  };
  const int64_t likeliest = std::ranges::max_element(scores) - scores.begin();
  const bool numbers = std::ranges::none_of(scores, [](double score) { return std::isnan(score); });
  check(numbers && std::isfinite(scores[static_cast<size_t>(likeliest)]), Argument{"logits"},
        "hold NaN or infinity, or are all -infinity (expected finite ones)");
  if (options.temperature == 0) return likeliest;
  std::vector<int64_t> kept(scores.size());
  std::iota(kept.begin(), kept.end(), 0);
  if (options.top_k > 0 && options.top_k < std::ssize(kept)) {
    std::nth_element(kept.begin(), kept.begin() + options.top_k, kept.end(), before);
    kept.resize(static_cast<size_t>(options.top_k));
    std::ranges::sort(kept);  // nth_element leaves any order, and the draw is to depend on none
  }
  double total = 0;
  std::vector<double> sums;
  for (const int64_t token : kept) {
    total += std::exp((scores[static_cast<size_t>(token)] - scores[static_cast<size_t>(likeliest)]) / options.temperature);
    sums.push_back(total);
  }
  const auto found = std::ranges::upper_bound(sums, uniform(generator) * total);
  return kept[std::min(static_cast<size_t>(found - sums.begin()), kept.size() - 1)];
}

SequenceSampler::SequenceSampler(const DecoderLM& model, const SampleOptions& options)
    : model_(model), options_(options), cache_(model.make_cache()) {}

SequenceSampler::Sequence SequenceSampler::start(std::span<const int64_t> prompt, uint64_t seed) const {
  check(!prompt.empty(), "the prompt is empty (expected at least one token)");
  for (const int64_t token : prompt) {
    check(token >= 0 && token < model_.options().vocab,
          "the prompt has the token {}, the vocabulary {} tokens (expected tokens of it)", token, model_.options().vocab);
  }
  return {Generator(seed), {prompt.begin(), prompt.end()}};
}

void SequenceSampler::add(std::span<const int64_t> prompt, uint64_t seed) {
  sequences_.push_back(start(prompt, seed));
  cache_.add();
}

void SequenceSampler::replace(int64_t sequence, std::span<const int64_t> prompt, uint64_t seed) {
  Sequence begun = start(prompt, seed);
  cache_.clear(sequence);
  sequences_[static_cast<size_t>(sequence)] = std::move(begun);
}

void SequenceSampler::remove(int64_t sequence) {
  cache_.remove(sequence);
  sequences_.erase(sequences_.begin() + sequence);
}

std::vector<int64_t> SequenceSampler::next() {
  if (sequences_.empty()) return {};
  const NoGrad no_grad;
  std::vector<int64_t> lengths;
  for (const Sequence& sequence : sequences_) lengths.push_back(std::ssize(sequence.pending));
  const Ragged rows = Ragged::from_lengths(lengths);
  const Tensor tokens = empty({rows->rows()}, DType::int64);
  for (int64_t b = 0; b < size(); ++b) {
    std::ranges::copy(sequences_[static_cast<size_t>(b)].pending,
                      tokens.data<int64_t>() + rows->offsets()[static_cast<size_t>(b)]);
  }
  const Tensor logits = model_.next_logits({tokens, rows}, cache_).to(Device());
  std::vector<int64_t> result;
  for (int64_t b = 0; b < size(); ++b) {
    Sequence& sequence = sequences_[static_cast<size_t>(b)];
    result.push_back(sample_token(select(logits, 0, b), options_, sequence.generator));
    sequence.pending = {result.back()};
  }
  return result;
}

}  // namespace deckle::nn
