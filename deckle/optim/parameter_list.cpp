#include "deckle/optim/parameter_list.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_map>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::optim {

ParameterList::ParameterList(std::vector<Tensor> parameters) : parameters_(std::move(parameters)) {
  std::unordered_map<const void*, size_t> places;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    check(parameters_[i].defined() && parameters_[i].is_leaf() && parameters_[i].requires_grad(),
          "parameter {} is no leaf that requires grad (expected one)", i);
    const auto [place, first] = places.emplace(parameters_[i].impl(), i);
    check(first, "parameters {} and {} are the same tensor, which would be stepped twice (expected different ones)",
          place->second, i);
  }
}

std::vector<size_t> ParameterList::with_gradient() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) {
      indices.push_back(i);
      continue;
    }
    check(parameters_[i].shared_impl().use_count() > 1,
          "parameter {} has no gradient, and nothing but the optimizer holds it, so that it is never trained (expected the "
          "tensors that the module has now: make the optimizer after to())",
          i);
  }
  return indices;
}

void ParameterList::zero_grad() const {
  for (const Tensor& parameter : parameters_) parameter.set_grad({});
}

std::vector<Tensor> ParameterList::zeros() const {
  std::vector<Tensor> list;
  for (const Tensor& parameter : parameters_) list.push_back(zeros_like(parameter));
  return list;
}

std::vector<Tensor> gradients_of(TensorList parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    if (Tensor gradient = parameter.grad(); gradient.defined()) gradients.push_back(std::move(gradient));
  }
  return gradients;
}

Tensor contiguous_gradient(const Tensor& parameter) {
  Tensor gradient = parameter.grad();
  return gradient.is_contiguous() ? gradient : contiguous(gradient);
}

std::string state_key(const std::string& name, size_t i) { return fmt::format("{}.{}", name, i); }

void put_state(State& state, const std::string& name, const std::vector<Tensor>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].defined()) state[state_key(name, i)] = list[i];
  }
}

const Tensor& find_state(const State& state, const std::string& key, const Tensor& like) {
  const auto at = state.find(key);
  check(at != state.end() && at->second.defined(), "the state has no \"{}\" (expected the state that save wrote)", key);
  const Tensor& found = at->second;
  check(found.sizes() == like.sizes() && found.dtype() == like.dtype(), "the state \"{}\" is {} {} (expected {} {})", key,
        found.sizes(), name(found.dtype()), like.sizes(), name(like.dtype()));
  return found;
}

std::vector<Tensor> find_state(const State& state, const std::string& name, const std::vector<Tensor>& list) {
  std::vector<Tensor> found;
  for (size_t i = 0; i < list.size(); ++i) found.push_back(find_state(state, state_key(name, i), list[i]));
  return found;
}

void copy_state(const std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  const NoGrad no_grad;
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

void check_lr(double lr) { check(lr >= 0 && std::isfinite(lr), Argument{"lr"}, "is {} (expected a number of 0 or more)", lr); }

void check_groups(size_t count) { check(count > 0, "no group of parameters (expected one or more)"); }

void check_group(size_t group, size_t count) {
  check(group < count, Argument{"group"}, "is {} (expected 0..{})", group, count - 1);
}

}  // namespace deckle::optim
