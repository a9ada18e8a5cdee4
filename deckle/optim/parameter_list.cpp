#include "deckle/optim/parameter_list.h"

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::optim {

ParameterList::ParameterList(std::vector<Tensor> parameters) : parameters_(std::move(parameters)) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    check(parameters_[i].defined() && parameters_[i].is_leaf() && parameters_[i].requires_grad(),
          "parameter {} of the optimizer is no leaf that requires grad", i);
  }
}

std::vector<size_t> ParameterList::with_gradient() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].grad().defined()) indices.push_back(i);
  }
  return indices;
}

void ParameterList::zero_grad() const {
  for (const Tensor& parameter : parameters_) parameter.set_grad({});
}

std::vector<Tensor> ParameterList::zeros() const {
  std::vector<Tensor> list;
  for (const Tensor& parameter : parameters_) list.push_back(deckle::zeros(parameter.sizes(), parameter.dtype()));
  return list;
}

std::vector<Tensor> pick(const std::vector<Tensor>& list, const std::vector<size_t>& indices) {
  std::vector<Tensor> picked;
  for (const size_t i : indices) picked.push_back(list[i]);
  return picked;
}

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters, const std::vector<size_t>& indices) {
  std::vector<Tensor> gradients;
  // The list ops walk parameter and gradient side by side, so both must be packed.
  for (const size_t i : indices) gradients.push_back(contiguous(parameters[i].grad()));
  return gradients;
}

void put_state(std::map<std::string, Tensor>& state, const std::string& name, const std::vector<Tensor>& list) {
  for (size_t i = 0; i < list.size(); ++i) state[fmt::format("{}.{}", name, i)] = list[i];
}

void take_state(const std::map<std::string, Tensor>& state, const std::string& name, const std::vector<Tensor>& list) {
  std::vector<Tensor> found;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string key = fmt::format("{}.{}", name, i);
    const auto at = state.find(key);
    check(at != state.end(), "the optimizer's state has no \"{}\"", key);
    check(at->second.sizes() == list[i].sizes() && at->second.dtype() == list[i].dtype(), "the optimizer's state \"{}\" is {} {} (expected {} {})", key,
          to_string(at->second.sizes()), deckle::name(at->second.dtype()), to_string(list[i].sizes()), deckle::name(list[i].dtype()));
    found.push_back(at->second);
  }
  const NoGrad no_grad;
  for (size_t i = 0; i < list.size(); ++i) list[i].copy_(found[i]);
}

}  // namespace deckle::optim
