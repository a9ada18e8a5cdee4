#pragma once

#include "deckle/nn/init.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/index.h"

namespace deckle::nn {

/// A learned vector for each of `count` tokens.
class Embedding final : public Module {
 public:
  Embedding(int64_t count, int64_t width, double deviation, Generator& generator)
      : weight(normal_parameter({count, width}, deviation, generator)) {}

  /// Tokens [...] of an integer dtype -> vectors [..., width].
  Tensor operator()(const Tensor& tokens) const { return embedding(weight, tokens); }
  NestedTensor operator()(const NestedTensor& tokens) const { return {embedding(weight, tokens.values()), tokens.ragged()}; }

  void visit(StateVisitor& visitor) override { visitor.parameter("weight", weight); }

  Tensor weight;  // [count, width]
};

}  // namespace deckle::nn
