#pragma once

#include <span>

#include "deckle/core/generator.h"
#include "deckle/nn/decoder.h"

namespace deckle::nn {

struct SampleOptions {
  double temperature = 1;  // 0: always the likeliest token
  int64_t top_k = 0;       // only the k likeliest tokens; 0: all
};

/// One token drawn from logits [vocab].
int64_t sample_token(const Tensor& logits, const SampleOptions& options, Generator& generator);

/// Continues sequences together, token by token; each costs one row, as keys and values are kept. A sequence sees only itself
/// and draws from a generator of its own, so it goes on as it would alone (matrix products may round differently beside other
/// rows).
class SequenceSampler {
 public:
  /// The model must outlive the sampler.
  explicit SequenceSampler(const DecoderLM& model, const SampleOptions& options = {});

  /// A sequence joins, behind the others. `prompt` has at least one token; `seed` is that of the drawing.
  void add(std::span<const int64_t> prompt, uint64_t seed);
  /// Another sequence takes the place of one, and its memory.
  void replace(int64_t sequence, std::span<const int64_t> prompt, uint64_t seed);
  /// A sequence leaves; those behind it move up by one.
  void remove(int64_t sequence);
  int64_t size() const { return static_cast<int64_t>(sequences_.size()); }

  /// The next token of each sequence, which becomes part of it.
  std::vector<int64_t> next();

 private:
  struct Sequence {
    Generator generator;
    std::vector<int64_t> pending;  // tokens that the cache has not seen
  };
  Sequence start(std::span<const int64_t> prompt, uint64_t seed) const;

  const DecoderLM& model_;
  SampleOptions options_;
  KeyValueCache cache_;
  std::vector<Sequence> sequences_;
};

}  // namespace deckle::nn
