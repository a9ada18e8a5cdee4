#include "deckle/autograd/backward.h"

#include "deckle/autograd/engine.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle {
namespace {

std::vector<autograd::Edge> root_edges(TensorList outputs) {
  std::vector<autograd::Edge> roots;
  for (const Tensor& output : outputs) {
    roots.push_back(autograd::gradient_edge(output));
    check(roots.back().node != nullptr, "an output of shape {} does not require grad and has no history", output.sizes());
  }
  return roots;
}

std::vector<Tensor> root_gradients(TensorList outputs, const std::vector<Tensor>& given) {
  check(given.empty() || given.size() == outputs.size(), "{} grad_outputs for {} outputs", given.size(), outputs.size());
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < given.size() && given[i].defined()) {
      check(given[i].sizes() == outputs[i].sizes(), "a gradient of shape {} for an output of shape {}", given[i].sizes(),
            outputs[i].sizes());
      gradients.push_back(given[i]);
    } else {
      check(outputs[i].numel() == 1, "an output of shape {} needs a gradient (only a single element has the default 1)", outputs[i].sizes());
      const NoGrad quiet;
      gradients.push_back(ones_like(outputs[i].detach()));
    }
  }
  return gradients;
}

}  // namespace

std::vector<Tensor> grad(TensorList outputs, TensorList inputs, const GradOptions& options) {
  check(!inputs.empty(), "grad: no inputs");
  std::vector<autograd::Edge> captures;
  for (size_t i = 0; i < inputs.size(); ++i) {
    captures.push_back(autograd::gradient_edge(inputs[i]));
    check(captures.back().node != nullptr || options.allow_unused, "grad: input {} of shape {} does not require grad", i,
          inputs[i].sizes());
  }
  std::vector<Tensor> results = autograd::run_backward(root_edges(outputs), root_gradients(outputs, options.grad_outputs), captures,
                                                       options.retain_graph || options.create_graph, options.create_graph);
  for (size_t i = 0; i < results.size(); ++i) {
    check(results[i].defined() || options.allow_unused, "grad: no output depends on input {} of shape {} (allow_unused gives an undefined tensor)", i,
          inputs[i].sizes());
  }
  return results;
}

void backward(TensorList outputs, const GradOptions& options) {
  autograd::run_backward(root_edges(outputs), root_gradients(outputs, options.grad_outputs), {}, options.retain_graph || options.create_graph,
                         options.create_graph);
}

void register_hook(const Tensor& tensor, autograd::GradientHook hook) {
  const autograd::Edge edge = autograd::gradient_edge(tensor);
  check(edge.node != nullptr, "register_hook: the tensor does not require grad");
  if (tensor.is_leaf()) tensor.impl()->meta->leaf_hooks.emplace_back(edge.slot, hook);
  edge.node->add_hook(edge.slot, std::move(hook));
}

void retain_grad(const Tensor& tensor) {
  if (tensor.is_leaf()) return;
  register_hook(tensor, [meta = std::weak_ptr(tensor.shared_impl()->meta)](const Tensor& gradient) {
    if (const auto target = meta.lock()) target->grad = target->grad.defined() ? add(target->grad, gradient) : gradient;
    return Tensor{};
  });
}

}  // namespace deckle
