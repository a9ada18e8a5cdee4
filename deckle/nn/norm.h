#pragma once

#include "deckle/nested/generated/norm.h"
#include "deckle/nn/init.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/norm.h"

namespace deckle::nn {

/// Each row of the last dim divided by its root mean square, times a learned weight. Zhang and Sennrich, 2019.
class RMSNorm final : public Module {
 public:
  explicit RMSNorm(int64_t width, double epsilon = 1e-5) : weight(constant_parameter({width}, 1)), epsilon_(epsilon) {}

  template <TensorLike X>
  X operator()(const X& x) const {
    return rms_norm(x, weight, epsilon_);
  }

  DECKLE_MEMBERS(weight, epsilon_);

  Tensor weight;

 private:
  double epsilon_;
};

/// Each row of the last dim with mean 0 and variance 1, times a learned weight, plus a learned bias. Ba et al., 2016.
class LayerNorm final : public Module {
 public:
  explicit LayerNorm(int64_t width, double epsilon = 1e-5)
      : weight(constant_parameter({width}, 1)), bias(constant_parameter({width}, 0)), epsilon_(epsilon) {}

  template <TensorLike X>
  X operator()(const X& x) const {
    return layer_norm(x, weight, bias, epsilon_);
  }

  DECKLE_MEMBERS(weight, bias, epsilon_);

  Tensor weight;
  Tensor bias;

 private:
  double epsilon_;
};

}  // namespace deckle::nn
