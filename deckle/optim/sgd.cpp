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
  std::vector<std::vector<size_t>> by_group(options_.size());
  for (const size_t i : parameters_.with_gradient()) by_group[groups_[i]].push_back(i);
  for (size_t number = 0; number < by_group.size(); ++number) {
    const SGDOptions& options = options_[number];
    const std::vector<size_t>& indices = by_group[number];
    if (options.momentum == 0) {
      const std::vector<Tensor> values = pick(all, indices);
      foreach_sgd_(values, gradients_of(values), options.lr, options.weight_decay);
      continue;
    }
    std::vector<size_t> starting;
    std::vector<size_t> moving;
    for (const size_t i : indices) (velocities_[i].defined() ? moving : starting).push_back(i);
    const auto take = [&](const std::vector<size_t>& some, const std::vector<Tensor>& velocities, double dampening) {
      if (some.empty()) return;
      const std::vector<Tensor> values = pick(all, some);
      foreach_sgd_momentum_(values, gradients_of(values), velocities, options.lr, options.momentum, options.weight_decay,
                            dampening, options.nesterov);
    };
    std::vector<Tensor> velocities;  // of those that start: kept once the step was taken
    for (const size_t i : starting) velocities.push_back(zeros_like(all[i]));
    take(starting, velocities, 0);
    for (size_t i = 0; i < starting.size(); ++i) velocities_[starting[i]] = velocities[i];
    take(moving, pick(velocities_, moving), options.dampening);
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
