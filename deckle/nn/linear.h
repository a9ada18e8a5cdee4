#pragma once

#include <cmath>

#include "deckle/nested/generated/matmul.h"
#include "deckle/nn/init.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/matmul.h"

namespace deckle::nn {

struct LinearOptions {
  bool bias = true;
  double scale = 1;  // of the standard deviation of the starting values, 1 / sqrt(in)
  Generator* generator = nullptr;
};

/// x weightᵀ + bias over the last dim.
class Linear final : public Module {
 public:
  Linear(IntArg in, IntArg out, const LinearOptions& options = {})
      : weight(normal_parameter({out, in}, options.scale / std::sqrt(static_cast<double>(in)), options.generator)) {
    if (options.bias) bias = constant_parameter({out}, 0);
  }

  template <TensorLike X>
  X operator()(const X& x) const {
    return linear(x, weight, bias);
  }

  DECKLE_MEMBERS(weight, bias);

  Tensor weight;  // [out, in]
  Tensor bias;    // [out], or undefined
};

}  // namespace deckle::nn
