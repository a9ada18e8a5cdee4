#include "deckle/autograd/variable.h"

#include "deckle/autograd/accumulate.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/autograd/support.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

struct VariableBackward final : Node {
  std::string_view name() const override { return "variable"; }
  void backward(const Gradients& gradients, GradientSink& sink) override {
    if (sink.wants(0)) sink.put(0, gradients[0]);
  }
};

}  // namespace

Tensor fresh_variable(const Tensor& tensor) {
  // Elements that share a place could not have tangents or gradients of their own through a view.
  const bool shares = distinct_places(tensor.sizes(), tensor.strides());
  const Tensor fresh = shares ? alias(tensor, tensor.sizes(), tensor.strides(), tensor.offset()) : clone(tensor.detach());
  if (records(tensor)) {
    auto node = std::make_shared<VariableBackward>();
    node->connect(tensor);
    attach(fresh, node);
  }
  for (const Level level : tangent_levels(tensor)) set_tangent(fresh, level, tangent(tensor, level));
  return fresh;
}

void close_variable(const Tensor& variable) {
  const Edge edge = recorded_edge(variable);
  auto* const leaf = edge.node == nullptr ? nullptr : dynamic_cast<AccumulateGrad*>(edge.node.get());
  if (leaf != nullptr) leaf->close();
}

}  // namespace deckle::autograd
