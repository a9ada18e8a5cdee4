#include "deckle/nn/module.h"

#include <unordered_set>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/compare.h"

namespace deckle::nn {

void Module::walk(StateVisitor::Actions actions) const {
  StateVisitor visitor(std::move(actions));
  // Listing changes nothing; it is not const only so that visitors may also replace parameters.
  visitor.enter(const_cast<Module&>(*this));
}

std::vector<NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> parameters;
  std::unordered_set<const TensorImpl*> listed;
  walk({.parameter = [&](const std::string& name, Tensor& tensor) {
    if (listed.insert(tensor.impl()).second) parameters.push_back({name, tensor});
  }});
  return parameters;
}

std::vector<NamedParameter> Module::named_buffers() const {
  std::vector<NamedParameter> buffers;
  walk({.buffer = [&](const std::string& name, Tensor& tensor) { buffers.push_back({name, tensor}); }});
  return buffers;
}

void Module::train(BoolArg on) {
  walk({.module = [&](Module& module) { module.training_ = on; }});
}

void Module::requires_grad_(BoolArg value) const {
  for (const Tensor& parameter : parameters()) parameter.requires_grad_(value);
}

void Module::zero_grad() const {
  for (const Tensor& parameter : parameters()) parameter.set_grad({});
}

void Module::replace(const std::function<Tensor(const Tensor&)>& other) {
  std::map<const TensorImpl*, Tensor> replaced;
  std::vector<Tensor> former;  // alive, so that no two have had one address
  const StateVisitor::Action make = [&](const std::string&, Tensor& tensor) {
    const auto [found, first] = replaced.try_emplace(tensor.impl());
    if (!first) return;
    found->second = other(tensor.detach());
    if (found->second.defined()) found->second.requires_grad_(tensor.requires_grad());
    former.push_back(tensor);
  };
  const StateVisitor::Action assign = [&](const std::string&, Tensor& tensor) {
    const auto found = replaced.find(tensor.impl());  // none: a shared module, met again
    if (found != replaced.end() && found->second.defined()) tensor = Tensor(found->second);
  };
  walk({.parameter = make, .buffer = make});  // all, before the first is replaced: memory may run out
  walk({.parameter = assign, .buffer = assign});
}

void Module::to(Device device) {
  call_as("to", [&] { replace([&](const Tensor& tensor) { return tensor.device() == device ? Tensor() : tensor.to(device); }); });
}

void Module::to(DType dtype) {
  call_as("to", [&] {
    check(is_floating(dtype), Argument{"dtype"}, "is {} (expected a floating one)", deckle::name(dtype));
    replace([&](const Tensor& tensor) {
      return tensor.dtype() == dtype || !is_floating(tensor.dtype()) ? Tensor() : tensor.to(dtype);
    });
  });
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> tensors;
  for (const NamedParameter& parameter : named_parameters()) tensors.push_back(parameter.tensor);
  return tensors;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const Tensor& tensor : parameters()) count += tensor.numel();
  return count;
}

std::map<std::string, Tensor> Module::state() const {
  std::map<std::string, Tensor> state;
  const StateVisitor::Action add = [&](const std::string& name, Tensor& tensor) {
    check(state.emplace(name, tensor.detach()).second, "two parameters are named \"{}\" (expected names that differ)", name);
  };
  walk({.parameter = add, .buffer = add});
  return state;
}

namespace {

void require_same(const std::map<std::string, Tensor>& state, const std::map<std::string, Tensor>& own) {
  for (const auto& entry : state)
    check(own.contains(entry.first), "the model has no parameter \"{}\" (expected its parameters alone)", entry.first);
  for (const auto& [name, parameter] : own) {
    const auto found = state.find(name);
    check(found != state.end(), "the parameter \"{}\" is missing (expected all of the model)", name);
    const Tensor& given = found->second;
    check(given.defined() && given.sizes() == parameter.sizes() && given.dtype() == parameter.dtype(),
          "the parameter \"{}\" is {} {}, the model's is {} {} (expected the same)", name,
          given.defined() ? to_string(given.sizes()) : "undefined", given.defined() ? deckle::name(given.dtype()) : "",
          parameter.sizes(), deckle::name(parameter.dtype()));
  }
}

bool same(const Tensor& a, const Tensor& b) { return is_floating(a.dtype()) ? allclose(a, b, 0, 0, true) : equal(a, b); }

/// Names of one parameter have one value.
void require_tied(const std::map<std::string, Tensor>& state, const std::map<std::string, Tensor>& own) {
  std::map<std::pair<const Storage*, int64_t>, std::string> first;
  for (const auto& [name, parameter] : own) {
    const auto [entry, is_new] = first.try_emplace({parameter.storage().get(), parameter.offset()}, name);
    check(is_new || own.at(entry->second).sizes() != parameter.sizes() || same(state.at(name), state.at(entry->second)),
          "the parameters \"{}\" and \"{}\" are one in the model and differ here (expected equal values)", entry->second, name);
  }
}

}  // namespace

void Module::load_state(const std::map<std::string, Tensor>& state) const {
  const std::map<std::string, Tensor> own = this->state();
  call_as("load_state", [&] {
    require_same(state, own);
    require_tied(state, own);
  });
  const NoGrad no_grad;
  for (const auto& [name, parameter] : own) parameter.copy_(state.at(name));
}

}  // namespace deckle::nn
