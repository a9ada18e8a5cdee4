#pragma once

#include "deckle/nn/init.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/index.h"

namespace deckle::nn {

struct EmbeddingOptions {
  double standard_deviation = 1;  // of the starting values
  Generator* generator = nullptr;
};

/// A learned vector for each of `count` tokens.
class Embedding final : public Module {
 public:
  Embedding(IntArg count, IntArg width, const EmbeddingOptions& options = {})
      : weight(normal_parameter({count, width}, options.standard_deviation, options.generator)) {}

  /// Tokens [...] of an integer dtype -> vectors [..., width].
  Tensor operator()(const Tensor& tokens) const { return embedding(weight, tokens); }
  NestedTensor operator()(const NestedTensor& tokens) const {
    return NestedTensor::of_op(embedding(weight, tokens.values()), tokens.ragged());
  }

  DECKLE_MEMBERS(weight);

  Tensor weight;  // [count, width]
};

}  // namespace deckle::nn
