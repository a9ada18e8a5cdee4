#include "deckle/autograd/backward.h"

#include <utility>

#include "deckle/autograd/engine.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle {
namespace {

std::vector<autograd::Edge> root_edges(TensorList outputs) {
  std::vector<autograd::Edge> roots;
  roots.reserve(outputs.size());
  for (const Tensor& output : outputs) {
    roots.push_back(autograd::gradient_edge(output));
    check(roots.back().node != nullptr, "an output of shape {} does not require grad and has no history (expected one that does)",
          output.sizes());
  }
  return roots;
}

std::vector<Tensor> root_gradients(TensorList outputs, const std::vector<Tensor>& given) {
  check(given.empty() || given.size() == outputs.size(), "{} grad_outputs for {} outputs (expected one for each, or none)",
        given.size(), outputs.size());
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < given.size() && given[i].defined()) {
      check(given[i].sizes() == outputs[i].sizes(), "a gradient of shape {} for an output of shape {} (expected its shape)",
            given[i].sizes(), outputs[i].sizes());
      check(given[i].device() == outputs[i].device(), "a gradient on {} for an output on {} (expected the same device)",
            given[i].device(), outputs[i].device());
      gradients.push_back(given[i]);
    } else {
      check(outputs[i].numel() == 1,
            "an output of shape {} needs a gradient (expected one; only a single element has the default 1)", outputs[i].sizes());
      const NoGrad quiet;
      gradients.push_back(ones_like(outputs[i].detach()));
    }
  }
  return gradients;
}

}  // namespace

std::vector<Tensor> grad(TensorList outputs, TensorList inputs, const GradOptions& options) {
  std::vector<autograd::Edge> captures, roots;
  std::vector<Tensor> gradients;
  call_as("grad", [&] {
    check(!inputs.empty(), "no inputs (expected one or more)");
    roots = root_edges(outputs);
    gradients = root_gradients(outputs, options.grad_outputs);
    captures.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      captures.push_back(autograd::recorded_edge(inputs[i]));
      check(captures.back().node != nullptr || options.allow_unused || inputs[i].requires_grad(),
            "input {} of shape {} does not require grad (expected one that does, or allow_unused)", i, inputs[i].sizes());
    }
  });
  // Errors of nodes say themselves whose backward they are.
  std::vector<Tensor> results = autograd::run_backward(std::move(roots), std::move(gradients), captures,
                                                       options.retain_graph || options.create_graph, options.create_graph);
  call_as("grad", [&] {
    for (size_t i = 0; i < results.size(); ++i) {
      check(results[i].defined() || options.allow_unused,
            "no output depends on input {} of shape {} (expected one that does; allow_unused gives an undefined tensor)", i,
            inputs[i].sizes());
    }
  });
  return results;
}

void backward(TensorList outputs, const GradOptions& options) {
  std::vector<autograd::Edge> roots;
  std::vector<Tensor> gradients;
  call_as("backward", [&] {
    roots = root_edges(outputs);
    gradients = root_gradients(outputs, options.grad_outputs);
  });
  autograd::run_backward(std::move(roots), std::move(gradients), {}, options.retain_graph || options.create_graph,
                         options.create_graph);
}

void autograd::HookHandle::remove() {
  if (const std::shared_ptr<GradientHook> function = function_.lock()) *function = nullptr;
}

HookHandle register_hook(const Tensor& tensor, autograd::GradientHook hook) {
  const autograd::Edge edge = autograd::gradient_edge(tensor);
  call_as("register_hook", [&] {
    check(edge.node != nullptr, "the tensor does not require grad (expected one that does)");
    check(hook != nullptr, "the hook is an empty function (expected one that can be called)");
  });
  const autograd::Hook entry{edge.slot, std::make_shared<autograd::GradientHook>(std::move(hook))};
  if (tensor.is_leaf()) {
    autograd::Meta& meta = *tensor.impl()->meta;
    const std::lock_guard lock(meta.mutex);
    autograd::add_hook(meta.leaf_hooks, entry);
  }
  edge.node->add_hook(entry);
  return HookHandle(entry.function);
}

void retain_grad(const Tensor& tensor) {
  call_as("retain_grad", [&] { check(tensor.requires_grad(), "the tensor does not require grad (expected one that does)"); });
  const autograd::Edge edge = autograd::origin(tensor);
  if (edge.node == nullptr) return;
  const std::shared_ptr<autograd::Meta>& meta = tensor.shared_impl()->meta;
  if (std::exchange(meta->retains_grad, true)) return;
  edge.node->retain(edge.slot, meta);
}

}  // namespace deckle
