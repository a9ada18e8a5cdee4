#include "deckle/nn/init.h"

#include "deckle/autograd/grad_mode.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nn {

Tensor parameter(const Tensor& values) {
  const Tensor copy = clone(values.detach());
  copy.requires_grad_();
  return copy;
}

Tensor normal_parameter(Ints sizes, double standard_deviation, Generator* generator) {
  const NoGrad no_grad;
  const Tensor values = mul(randn(sizes, {.generator = generator}), standard_deviation);
  values.requires_grad_();
  return values;
}

Tensor constant_parameter(Ints sizes, double value) {
  const Tensor values = full(sizes, value);
  values.requires_grad_();
  return values;
}

}  // namespace deckle::nn
