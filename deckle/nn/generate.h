#pragma once

#include <span>

#include "deckle/core/generator.h"
#include "deckle/nn/decoder.h"

namespace deckle::nn {

struct SampleOptions {
  double temperature = 1;  // 0: always the likeliest symbol
  int64_t top_k = 0;       // only the k likeliest symbols; 0: all
};

/// One symbol drawn from logits [vocab].
int64_t sample_symbol(const Tensor& logits, const SampleOptions& options, Generator& generator);

/// Continues one sequence symbol by symbol; each costs one row, as keys and values are kept.
class SequenceSampler {
 public:
  /// `prompt` has at least one symbol. The model and the generator must outlive the sampler.
  SequenceSampler(const DecoderLM& model, std::span<const int64_t> prompt, const SampleOptions& options, Generator& generator);

  /// The next symbol, which becomes part of the sequence.
  int64_t next();

 private:
  void make_room(int64_t count);

  const DecoderLM& model_;
  SampleOptions options_;
  Generator& generator_;
  std::vector<int64_t> pending_;  // symbols that the cache has not seen
  KeyValueCache cache_;
  int64_t capacity_ = 0;
};

}  // namespace deckle::nn
