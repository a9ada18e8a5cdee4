#include "deckle/optim/adamw.h"

#include <algorithm>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::optim {

namespace {

/// The same options by another name.
std::vector<Group<AdamWOptions>> as_adamw(const std::vector<Group<AdamOptions>>& groups) {
  std::vector<Group<AdamWOptions>> result;
  for (const auto& [parameters, options] : groups)
    result.push_back({parameters, {options.lr, options.beta1, options.beta2, options.epsilon, options.weight_decay}});
  return result;
}

}  // namespace

AdamW::AdamW(const std::vector<Group<AdamWOptions>>& groups, Decay decay, const char* name) try
    : AdamW(join_groups(groups), decay, name) {
} catch (...) {
  rethrow_from(name);
}

AdamW::AdamW(Joined<AdamWOptions> groups, Decay decay, const char* name)
    : name_(name),
      parameters_(std::move(groups.parameters)),
      options_(std::move(groups.options)),
      groups_(std::move(groups.groups)),
      decay_(decay),
      averages_(parameters_.zeros()),
      squares_(parameters_.zeros()),
      steps_(parameters_.all().size(), 0) {
  for (const AdamWOptions& options : options_) {
    check_lr(options.lr);
    check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
          "beta1 is {}, beta2 {} (expected from 0 to below 1)", options.beta1, options.beta2);
    check(options.epsilon > 0 && options.weight_decay >= 0, "epsilon is {}, weight_decay {} (expected above 0, and 0 or more)",
          options.epsilon, options.weight_decay);
  }
}

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : AdamW({{std::move(parameters), options}}, Decay::decoupled, "AdamW") {}
AdamW::AdamW(const std::vector<Group<AdamWOptions>>& groups) : AdamW(groups, Decay::decoupled, "AdamW") {}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options)
    : AdamW(as_adamw({{std::move(parameters), options}}), Decay::gradient, "Adam") {}
Adam::Adam(const std::vector<Group<AdamOptions>>& groups) : AdamW(as_adamw(groups), Decay::gradient, "Adam") {}

double AdamW::lr(size_t group) const {
  call_as(name_, [&] { check_group(group, options_.size()); });
  return options_[group].lr;
}

void AdamW::set_lr(double lr) {
  for (size_t group = 0; group < options_.size(); ++group) set_lr(group, lr);
}

void AdamW::set_lr(size_t group, double lr) {
  call_as(name_, [&] {
    check_group(group, options_.size());
    check_lr(lr);
  });
  options_[group].lr = lr;
  if (!counters_.empty()) fill_(slice(counters_[group], 0, 0, 1), lr);
}

void AdamW::count_on_device(const Tensor& skip) try {
  const NoGrad no_grad;
  check(!parameters_.all().empty(), "no parameters, so no device to count on (expected some)");
  const Device device = parameters_.all()[0].device();
  if (skip.defined() && !(skip.dtype() == DType::bool_ && skip.numel() == 1 && skip.device() == device))
    fail(Argument{"skip"}, "is {} of shape {} on {} (expected a bool of one element on {})", name(skip.dtype()),
         to_string(skip.sizes()), to_string(skip.device()), to_string(device));
  write_counters(by_group(counts()));
  skip_ = skip;
} catch (...) {
  rethrow_from(name_);
}

std::vector<int64_t> AdamW::by_group(const std::vector<int64_t>& counts) const {
  std::vector<int64_t> result;
  for (size_t group = 0; group < options_.size(); ++group) {
    const auto first = std::find(groups_.begin(), groups_.end(), group);
    const int64_t steps = first == groups_.end() ? 0 : counts[static_cast<size_t>(first - groups_.begin())];
    for (size_t i = 0; i < counts.size(); ++i)
      check(groups_[i] != group || counts[i] == steps, "parameters of group {} have taken {} and {} steps (expected as many)",
            group, steps, counts[i]);
    result.push_back(steps);
  }
  return result;
}

void AdamW::write_counters(const std::vector<int64_t>& steps) {
  const Device device = parameters_.all()[0].device();
  std::vector<Tensor> counters = counters_;
  if (counters.empty() || !(counters[0].device() == device)) {
    const OnDevice there(device);
    counters.clear();
    for (size_t group = 0; group < steps.size(); ++group) counters.push_back(zeros({2}, DType::float64));
  }
  for (size_t group = 0; group < steps.size(); ++group) {
    fill_(slice(counters[group], 0, 0, 1), options_[group].lr);
    fill_(slice(counters[group], 0, 1, 2), static_cast<double>(steps[group]));
  }
  counters_ = std::move(counters);
}

void AdamW::step() try {
  const NoGrad no_grad;
  const std::vector<Tensor>& all = parameters_.all();
  const std::vector<size_t> stepped = parameters_.with_gradient();
  check(counters_.empty() || stepped.size() == all.size(),
        "{} of {} parameters have a gradient, and their steps are counted together on the device (expected all)", stepped.size(),
        all.size());
  // One call for all parameters of one group and count: for all of a group, unless some had no gradient at times.
  std::map<std::pair<size_t, int64_t>, Part> parts;
  for (const size_t i : stepped) {
    Part& part = parts[{groups_[i], counters_.empty() ? steps_[i] + 1 : 0}];
    part.indices.push_back(i);
    part.values.push_back(all[i]);
    part.gradients.push_back(contiguous_gradient(all[i]));
    part.averages.push_back(averages_[i]);
    part.squares.push_back(squares_[i]);
  }
  for (auto& [key, part] : parts) {
    const double decay = options_[key.first].weight_decay;
    if (decay_ == Decay::gradient && decay > 0) part.gradients = foreach_add(part.gradients, part.values, decay);
  }
  // Nothing is written before all copies are made.
  for (const auto& [key, part] : parts) step_part(key.first, key.second, part);
} catch (...) {
  rethrow_from(name_);
}

void AdamW::step_part(size_t group, int64_t step, const Part& part) {
  const AdamWOptions& options = options_[group];
  const double decay = decay_ == Decay::gradient ? 0 : options.weight_decay;
  if (!counters_.empty()) {
    foreach_adamw_counted_(part.values, part.gradients, part.averages, part.squares, counters_[group], skip_, options.beta1,
                           options.beta2, options.epsilon, decay);
    return;
  }
  foreach_adamw_(part.values, part.gradients, part.averages, part.squares, options.lr, options.beta1, options.beta2,
                 options.epsilon, decay, step);
  for (const size_t i : part.indices) steps_[i] = step;
}

std::vector<int64_t> AdamW::counts() const {
  if (counters_.empty()) return steps_;
  std::vector<int64_t> by_group, result;
  for (const Tensor& counter : counters_) by_group.push_back(static_cast<int64_t>(counter.to_vector()[1]));
  for (const size_t group : groups_) result.push_back(by_group[group]);
  return result;
}

State AdamW::state() const {
  const std::vector<int64_t> counts = this->counts();
  const OnDevice host{Device()};
  const Tensor steps = zeros({static_cast<int64_t>(counts.size())}, DType::int64);
  std::copy(counts.begin(), counts.end(), steps.data<int64_t>());
  State state{{"steps", steps}};
  put_state(state, "average", averages_);
  put_state(state, "square", squares_);
  return state;
}

void AdamW::load_state(const State& state) try {
  check(state.size() == 1 + averages_.size() + squares_.size(), "the state has {} tensors (expected {})", state.size(),
        1 + averages_.size() + squares_.size());
  const std::vector<int64_t> steps =
      find_state(state, "steps", zeros({static_cast<int64_t>(steps_.size())}, DType::int64)).to_vector<int64_t>();
  for (const int64_t step : steps) check(step >= 0, "the state \"steps\" has the count {} (expected 0 or more)", step);
  const std::vector<Tensor> averages = find_state(state, "average", averages_);
  const std::vector<Tensor> squares = find_state(state, "square", squares_);
  const std::vector<int64_t> on_device = counters_.empty() ? steps : by_group(steps);
  copy_state(averages_, averages);
  copy_state(squares_, squares);
  steps_ = steps;
  if (!counters_.empty()) write_counters(on_device);
} catch (...) {
  rethrow_from(name_);
}

}  // namespace deckle::optim
