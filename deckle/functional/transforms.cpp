#include "deckle/functional/transforms.h"

#include "deckle/core/tensor_impl.h"

namespace deckle::functional {

std::vector<Tensor> gradients(TensorList outputs, TensorList inputs, TensorList cotangents, bool create_graph) {
  GradOptions options{.create_graph = create_graph, .allow_unused = true};
  std::vector<Tensor> differentiable;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!autograd::requires_grad(outputs[i]) || (!cotangents.empty() && !cotangents[i].defined())) continue;
    differentiable.push_back(outputs[i]);
    if (!cotangents.empty()) options.grad_outputs.push_back(cotangents[i]);
  }
  std::vector<Tensor> result(inputs.size());
  if (!differentiable.empty()) result = deckle::grad(differentiable, inputs, options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!result[i].defined() && is_floating(inputs[i].dtype()))
      result[i] = zeros_raw(inputs[i].sizes(), inputs[i].dtype(), inputs[i].device());
  }
  return result;
}

}  // namespace deckle::functional
