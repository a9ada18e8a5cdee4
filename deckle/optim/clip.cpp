#include "deckle/optim/clip.h"

#include <cmath>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/foreach.h"

namespace deckle::optim {

namespace {

std::vector<Tensor> gradients_of(TensorList parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    if (const Tensor gradient = parameter.grad(); gradient.defined()) gradients.push_back(gradient);
  }
  return gradients;
}

double norm_of(const std::vector<Tensor>& gradients) {
  if (gradients.empty()) return 0;
  double sum = 0;
  for (const double norm : foreach_norm(gradients).to_vector()) sum += norm * norm;
  return std::sqrt(sum);
}

}  // namespace

double gradient_norm(TensorList parameters) {
  const NoGrad no_grad;
  return norm_of(gradients_of(parameters));
}

double clip_gradient_norm(TensorList parameters, double max_norm) {
  named("clip_gradient_norm", [&] { check(max_norm > 0, Argument{"max_norm"}, "is {} (expected more than 0)", max_norm); });
  const NoGrad no_grad;
  const std::vector<Tensor> gradients = gradients_of(parameters);
  const double norm = norm_of(gradients);
  if (std::isfinite(norm) && norm > max_norm) foreach_scale_(gradients, max_norm / norm);
  return norm;
}

}  // namespace deckle::optim
