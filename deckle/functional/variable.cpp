#include "deckle/functional/variable.h"

#include "deckle/autograd/support.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::functional {
namespace {

struct VariableBackward final : autograd::Node {
  std::string_view name() const override { return "variable"; }
  void backward(const autograd::Gradients& gradients, autograd::GradientSink& sink) override {
    if (sink.wants(0)) sink.put(0, gradients[0]);
  }
};

}  // namespace

std::vector<Tensor> variables(TensorList tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) {
    const Tensor fresh = alias(tensor, tensor.sizes(), tensor.strides(), tensor.offset());
    for (const autograd::Level level : autograd::tangent_levels(tensor)) autograd::set_tangent(fresh, level, autograd::tangent(tensor, level));
    if (is_floating(tensor.dtype())) {
      if (autograd::requires_grad(tensor)) {
        auto node = std::make_shared<VariableBackward>();
        node->connect(tensor);
        autograd::attach(fresh, node);
      } else {
        fresh.requires_grad_();
      }
    }
    result.push_back(fresh);
  }
  return result;
}

}  // namespace deckle::functional
