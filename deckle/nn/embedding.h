#pragma once

#include "deckle/nn/init.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/index.h"

namespace deckle::nn {

/// A learned vector for each of `count` symbols.
class Embedding final : public Module {
 public:
  Embedding(int64_t count, int64_t width, double deviation, Generator& generator)
      : weight(normal_parameter({count, width}, deviation, generator)) {}

  /// Symbols [...] of an integer dtype -> vectors [..., width].
  Tensor operator()(const Tensor& symbols) const { return embedding(weight, symbols); }
  NestedTensor operator()(const NestedTensor& symbols) const { return {embedding(weight, symbols.values()), symbols.ragged()}; }

  void visit(StateVisitor& visitor) override { visitor.parameter("weight", weight); }

  Tensor weight;  // [count, width]
};

}  // namespace deckle::nn
