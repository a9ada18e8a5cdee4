#include "deckle/optim/sgd.h"

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/foreach.h"

namespace deckle::optim {

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options) : parameters_(std::move(parameters)), options_(options) {
  check(options.momentum >= 0 && options.weight_decay >= 0, "SGDOptions: momentum {}, weight_decay {} (expected 0 or more)", options.momentum,
        options.weight_decay);
  check(!options.nesterov || options.momentum > 0, "SGDOptions: nesterov needs a momentum above 0");
  if (options.momentum > 0) velocities_ = parameters_.zeros();
}

void SGD::step() {
  const NoGrad no_grad;
  const std::vector<size_t> indices = parameters_.with_gradient();
  if (indices.empty()) return;
  const std::vector<Tensor> parameters = pick(parameters_.all(), indices);
  const std::vector<Tensor> gradients = gradients_of(parameters_.all(), indices);
  if (velocities_.empty()) {
    foreach_sgd_(parameters, gradients, options_.lr, options_.weight_decay);
  } else {
    foreach_sgd_momentum_(parameters, gradients, pick(velocities_, indices), options_.lr, options_.momentum, options_.weight_decay, 0.0, options_.nesterov);
  }
}

std::map<std::string, Tensor> SGD::state() const {
  std::map<std::string, Tensor> state;
  put_state(state, "velocity", velocities_);
  return state;
}

void SGD::load_state(const std::map<std::string, Tensor>& state) {
  check(state.size() == velocities_.size(), "the optimizer's state has {} tensors (expected {})", state.size(), velocities_.size());
  take_state(state, "velocity", velocities_);
}

}  // namespace deckle::optim
