#include "deckle/autograd/accumulate.h"

#include <limits>

#include "deckle/autograd/grad_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {

AccumulateGrad::AccumulateGrad(std::shared_ptr<Meta> meta, const Tensor& leaf) : meta_(std::move(meta)) {
  sequence_ = std::numeric_limits<uint64_t>::max();  // leaves first: their gradients free memory soonest
  add_output(leaf);
}

void AccumulateGrad::backward(const Gradients& gradients, GradientSink&) {
  const Tensor gradient = gradients[0];
  const std::lock_guard lock(meta_->mutex);
  Tensor& grad = meta_->grad;
  if (grad_enabled()) {  // create_graph: the gradient is part of a graph itself
    grad = grad.defined() ? add(grad, gradient) : gradient;
  } else if (grad.defined() && !requires_grad(grad)) {
    add_(grad, gradient);
  } else if (grad.defined()) {
    grad = add(grad, gradient);
  } else {
    // Own the memory: the same gradient may have reached another leaf, and users write to grad() in place.
    grad = clone(gradient).detach();
  }
}

}  // namespace deckle::autograd
