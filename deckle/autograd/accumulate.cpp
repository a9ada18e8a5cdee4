#include "deckle/autograd/accumulate.h"

#include <limits>

#include "deckle/autograd/grad_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {

void add_to_grad(Meta& meta, const Tensor& gradient) {
  const std::lock_guard lock(meta.mutex);
  Tensor& grad = meta.grad;
  if (!grad.defined()) {
    grad = grad_enabled() ? clone(gradient) : clone(gradient).detach();
  } else if (grad_enabled() || requires_grad(grad)) {
    grad = add(grad, gradient);
  } else {
    add_(grad, gradient);
  }
}

AccumulateGrad::AccumulateGrad(std::shared_ptr<Meta> meta, const Tensor& leaf) : meta_(std::move(meta)) {
  sequence_ = std::numeric_limits<uint64_t>::max();  // leaves first: their gradients free memory soonest
  add_output(leaf);
}

void AccumulateGrad::backward(const Gradients& gradients, GradientSink&) { add_to_grad(*meta_, gradients[0]); }

}  // namespace deckle::autograd
