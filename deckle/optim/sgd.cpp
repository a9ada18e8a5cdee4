#include "deckle/optim/sgd.h"

#include <new>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"

namespace deckle::optim {

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options) : parameters_(std::move(parameters)), options_(options) {
  check_lr("SGDOptions", options.lr);
  check(options.momentum >= 0 && options.weight_decay >= 0, "SGDOptions: momentum {}, weight_decay {} (expected 0 or more)",
        options.momentum, options.weight_decay);
  check(options.dampening >= 0 && options.dampening <= 1, "SGDOptions: dampening {} (expected 0 to 1)", options.dampening);
  check(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
        "nesterov without momentum or with dampening (expected a momentum above 0 and no dampening)");
  if (options.momentum > 0) velocities_.resize(parameters_.all().size());
}

void SGD::set_lr(double lr) {
  check_lr("SGD", lr);
  options_.lr = lr;
}

void SGD::step() try {
  const NoGrad no_grad;
  const std::vector<Tensor>& all = parameters_.all();
  const std::vector<size_t> indices = parameters_.with_gradient();
  if (velocities_.empty())
    return foreach_sgd_(pick(all, indices), gradients_of(all, indices), options_.lr, options_.weight_decay);
  std::vector<size_t> starting;
  std::vector<size_t> moving;
  for (const size_t i : indices) (velocities_[i].defined() ? moving : starting).push_back(i);
  for (const size_t i : starting) velocities_[i] = zeros(all[i].sizes(), all[i].dtype());
  for (const auto& [group, dampening] : {std::pair(starting, 0.0), std::pair(moving, options_.dampening)}) {
    foreach_sgd_momentum_(pick(all, group), gradients_of(all, group), pick(velocities_, group), options_.lr, options_.momentum,
                          options_.weight_decay, dampening, options_.nesterov);
  }
} catch (const std::bad_alloc&) {
  rethrow_from("SGD");
}

State SGD::state() const {
  State state;
  put_state(state, "velocity", velocities_);
  return state;
}

void SGD::load_state(const State& state) {
  const NoGrad no_grad;
  std::vector<Tensor> velocities(velocities_.size());
  size_t found = 0;
  for (size_t i = 0; i < velocities.size(); ++i) {
    const std::string key = state_key("velocity", i);
    if (!state.contains(key)) continue;
    velocities[i] = find_state(state, key, parameters_.all()[i]).clone();
    ++found;
  }
  check(found == state.size(),
        "the optimizer's state has {} tensors, of which {} are velocities of its {} parameters (expected all of them)",
        state.size(), found, velocities.size());
  velocities_ = std::move(velocities);
}

}  // namespace deckle::optim
