#include "deckle/optim/sgd.h"

#include <algorithm>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/cuda/graph.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"

namespace deckle::optim {

SGD::SGD(std::vector<Tensor> parameters, const SGDOptions& options)
    : SGD(std::vector<Group<SGDOptions>>{{std::move(parameters), options}}) {}

SGD::SGD(const std::vector<Group<SGDOptions>>& groups) try : SGD(join_groups(groups)) {
} catch (...) {
  rethrow_from("SGD");
}

SGD::SGD(Joined<SGDOptions> groups)
    : parameters_(std::move(groups.parameters)),
      options_(std::move(groups.options)),
      groups_(std::move(groups.groups)),
      velocities_(parameters_.all().size()) {
  for (const SGDOptions& options : options_) {
    check_lr(options.lr);
    check(options.momentum >= 0 && options.weight_decay >= 0, "momentum is {}, weight_decay {} (expected 0 or more)",
          options.momentum, options.weight_decay);
    check(options.dampening >= 0 && options.dampening <= 1, Argument{"dampening"}, "is {} (expected 0 to 1)", options.dampening);
    check(!options.nesterov || (options.momentum > 0 && options.dampening == 0),
          "nesterov without momentum or with dampening (expected a momentum above 0 and no dampening)");
  }
}

double SGD::lr(size_t group) const {
  call_as("SGD", [&] { check_group(group, options_.size()); });
  return options_[group].lr;
}

void SGD::set_lr(double lr) {
  for (size_t group = 0; group < options_.size(); ++group) set_lr(group, lr);
}

void SGD::set_lr(size_t group, double lr) {
  call_as("SGD", [&] {
    check_group(group, options_.size());
    check_lr(lr);
  });
  options_[group].lr = lr;
}

void SGD::step() try {
  const NoGrad no_grad;
  const std::vector<Tensor>& all = parameters_.all();
  // Rates would be those of now in every replay, and velocities begin anew in each.
  const bool on_gpu = std::any_of(all.begin(), all.end(), [](const Tensor& tensor) { return tensor.device().is_cuda(); });
  check(!on_gpu || !cuda::capturing(),
        "a graph is being recorded, each replay of which would take the rate of now, {} (expected AdamW::count_on_device)",
        options_[0].lr);
  struct Part {
    std::vector<size_t> indices;
    std::vector<Tensor> values, gradients, velocities;
  };
  std::map<std::pair<size_t, bool>, Part> parts;  // of each group those without and with a velocity
  for (const size_t i : parameters_.with_gradient()) {
    const bool moving = velocities_[i].defined();
    Part& part = parts[{groups_[i], moving}];
    part.indices.push_back(i);
    part.values.push_back(all[i]);
    part.gradients.push_back(contiguous_gradient(all[i]));
    if (options_[groups_[i]].momentum > 0) part.velocities.push_back(moving ? velocities_[i] : zeros_like(all[i]));
  }
  // Nothing is written before all copies are made.
  for (const auto& [key, part] : parts) {
    const auto& [group, moving] = key;
    const SGDOptions& options = options_[group];
    if (options.momentum == 0) {
      foreach_sgd_(part.values, part.gradients, options.lr, options.weight_decay);
      continue;
    }
    foreach_sgd_momentum_(part.values, part.gradients, part.velocities, options.lr, options.momentum, options.weight_decay,
                          moving ? options.dampening : 0, options.nesterov);
    for (size_t i = 0; i < part.indices.size(); ++i) velocities_[part.indices[i]] = part.velocities[i];
  }
} catch (...) {
  rethrow_from("SGD");
}

State SGD::state() const {
  State state;
  put_state(state, "velocity", velocities_);
  return state;
}

void SGD::load_state(const State& state) try {
  const NoGrad no_grad;
  std::vector<Tensor> velocities(velocities_.size());
  size_t found = 0;
  for (size_t i = 0; i < velocities.size(); ++i) {
    const std::string key = state_key("velocity", i);
    if (!state.contains(key) || options_[groups_[i]].momentum == 0) continue;
    velocities[i] = find_state(state, key, parameters_.all()[i]).clone();
    ++found;
  }
  check(found == state.size(), "the state has {} tensors, of which {} are velocities of its {} parameters (expected all of them)",
        state.size(), found, velocities.size());
  velocities_ = std::move(velocities);
} catch (...) {
  rethrow_from("SGD");
}

}  // namespace deckle::optim
