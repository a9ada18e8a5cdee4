#pragma once

#include <concepts>

#include "deckle/autograd/grad_mode.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nn/init.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nn {

/// Each row of the last dim divided by its root mean square, times a learned weight. Zhang and Sennrich, 2019.
class RMSNorm final : public Module {
 public:
  explicit RMSNorm(IntArg width, FloatArg epsilon = 1e-5) : weight(constant_parameter({width}, 1)), epsilon_(epsilon) {}

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
  explicit LayerNorm(IntArg width, FloatArg epsilon = 1e-5)
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

/// Each channel (last dim) shifted and scaled by its mean and variance over all positions of the batch, ragged or not, and, after
/// eval(), by their running averages; times a learned weight, plus a learned bias. Inside checkpoint(), which calls it twice, the
/// averages move on twice. Ioffe and Szegedy, 2015.
class BatchNorm1d final : public Module {
 public:
  explicit BatchNorm1d(IntArg width, FloatArg epsilon = 1e-5, FloatArg momentum = 0.1)
      : weight(constant_parameter({width}, 1)),
        bias(constant_parameter({width}, 0)),
        running_mean(zeros({width})),
        running_variance(ones({width})),
        epsilon_(epsilon),
        momentum_(momentum) {}

  template <TensorLike X>
  X operator()(const X& x) const {
    if (!training()) return batch_norm(x, weight, bias, running_mean, running_variance, epsilon_);
    if constexpr (std::same_as<X, NestedTensor>)
      remember(x.values());
    else
      remember(x);
    return batch_norm(x, weight, bias, {}, {}, epsilon_);
  }

  DECKLE_MEMBERS(weight, bias, running_mean, running_variance, epsilon_, momentum_);

  Tensor weight, bias;
  Buffer running_mean, running_variance;

 private:
  /// Moves the running averages on: the variance is that of a sample, divided by the number of positions less one.
  void remember(const Tensor& x) const {
    const NoGrad none;
    const Tensor rows = x.reshape({-1, weight.size(0)}).to(DType::float32);
    call_as("nn::BatchNorm1d", [&] {
      if (rows.size(0) < 2)
        throw Error(fmt::format("{} positions have no variance (expected 2 or more in training)", rows.size(0)));
    });
    running_mean.copy_(lerp(running_mean, rows.mean({0}), momentum_));
    running_variance.copy_(lerp(running_variance, rows.var({0}), momentum_));
  }

  double epsilon_, momentum_;
};

}  // namespace deckle::nn
