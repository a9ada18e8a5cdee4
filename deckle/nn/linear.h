#pragma once

#include <cmath>

#include "deckle/nested/generated/matmul.h"
#include "deckle/nn/init.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/matmul.h"

namespace deckle::nn {

struct LinearOptions {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = false;
  double scale = 1;  // of the starting deviation, 1 / sqrt(in)
};

/// x weightᵀ + bias over the last dim.
class Linear final : public Module {
 public:
  Linear(const LinearOptions& options, Generator& generator)
      : weight(
            normal_parameter({options.out, options.in}, options.scale / std::sqrt(static_cast<double>(options.in)), generator)) {
    if (options.bias) bias = constant_parameter({options.out}, 0);
  }

  template <TensorLike X>
  X operator()(const X& x) const {
    return linear(x, weight, bias);
  }

  void visit(StateVisitor& visitor) override {
    visitor.parameter("weight", weight);
    visitor.parameter("bias", bias);
  }

  Tensor weight;  // [out, in]
  Tensor bias;    // [out], or undefined
};

}  // namespace deckle::nn
