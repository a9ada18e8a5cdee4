#include "deckle/functional/reverse_scope.h"

#include "deckle/autograd/backward.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/others.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/autograd/variable.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/functional/keeping.h"
#include "deckle/functional/variable.h"

namespace deckle::functional {
namespace {

/// The same elements and tangents, no history.
Tensor constant(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const Tensor result = tensor.detach();
  for (const autograd::Level level : autograd::tangent_levels(tensor))
    autograd::set_tangent(result, level, constant(autograd::tangent(tensor, level)));
  return result;
}

}  // namespace

ReverseScope::ReverseScope(TensorList inputs) : outside_(grad_enabled()), variables_(functional::variables(inputs)) {}

ReverseScope::~ReverseScope() {
  for (const Tensor& variable : variables_) autograd::close_variable(variable);
}

std::vector<Tensor> ReverseScope::gradients(TensorList outputs, TensorList cotangents, bool again) const {
  keeps_ = outside_ && KeepingScope::keeps([&] {
             return autograd::depend_on_others(outputs, variables_) || autograd::depend_on_others(cotangents, variables_);
           });
  GradOptions options{.retain_graph = again, .create_graph = keeps_, .allow_unused = true};
  std::vector<Tensor> differentiable;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!autograd::requires_grad(outputs[i]) || (!cotangents.empty() && !cotangents[i].defined())) continue;
    differentiable.push_back(outputs[i]);
    if (!cotangents.empty()) options.grad_outputs.push_back(cotangents[i]);
  }
  std::vector<Tensor> result(variables_.size());
  if (!differentiable.empty()) result = deckle::grad(differentiable, variables_, options);
  for (size_t i = 0; i < result.size(); ++i) {
    const Tensor& variable = variables_[i];
    if (!result[i].defined() && is_floating(variable.dtype()))
      result[i] = zeros_raw(variable.sizes(), variable.dtype(), variable.device());
  }
  return result;
}

std::vector<Tensor> ReverseScope::results(TensorList outputs) const {
  std::vector<Tensor> given;
  for (const Tensor& output : outputs) given.push_back(!keeps_ && autograd::requires_grad(output) ? constant(output) : output);
  return given;
}

}  // namespace deckle::functional
