// The members of Tensor that concern gradients.

#include "deckle/autograd/backward.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle {

// Under NoGrad, where no view is refused for its base's history.
bool Tensor::requires_grad() const {
  const NoGrad quiet;
  return autograd::requires_grad(*this);
}

bool Tensor::is_leaf() const {
  const NoGrad quiet;
  return autograd::origin(*this).node == nullptr;
}

Tensor Tensor::requires_grad_(BoolArg value) const {
  return call_as("requires_grad_", [&]() -> const Tensor& {
    check(!value || is_floating(dtype()), "dtype {} has no gradient (expected a floating dtype)", name(dtype()));
    check(value || is_leaf(),
          "the tensor is a result with history, which cannot stop to require grad (expected a leaf, or detach())");
    if (value && is_leaf()) autograd::leave_base(*this);
    autograd::ensure_meta(*this).requires_grad = value;
    return *this;
  });
}

Tensor Tensor::grad() const { return defined() && impl()->meta != nullptr ? impl()->meta->grad : Tensor{}; }

void Tensor::set_grad(const Tensor& gradient) const {
  call_as("set_grad", [&] {
    if (!gradient.defined()) return;
    check(gradient.sizes() == sizes() && gradient.dtype() == dtype(),
          "a gradient of shape {} {} for a tensor of shape {} {} (expected the same)", gradient.sizes(), name(gradient.dtype()),
          sizes(), name(dtype()));
    check(gradient.device() == device(), "a gradient on {} for a tensor on {} (expected the same device)", gradient.device(),
          device());
  });
  autograd::ensure_meta(*this).grad = gradient;
}

void Tensor::backward(const Tensor& gradient, BoolArg retain_graph, BoolArg create_graph) const {
  GradOptions options{.retain_graph = retain_graph, .create_graph = create_graph};
  if (gradient.defined()) options.grad_outputs = {gradient};
  deckle::backward(*this, options);
}

Tensor Tensor::detach() && {
  const Tensor from = std::move(*this);
  return from.detach();
}
Tensor Tensor::detach() const& {
  check(defined(), "the tensor is undefined (expected a defined one)");
  auto copy = std::make_shared<TensorImpl>(*impl());
  copy->meta = nullptr;
  copy->tangents = nullptr;
  return Tensor(std::move(copy));
}

}  // namespace deckle
