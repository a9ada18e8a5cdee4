#include "deckle/autograd/accumulate.h"

#include <limits>

#include "deckle/autograd/grad_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

/// Whether grad() may be this gradient's memory, not a copy: it is its elements alone, and nobody sees it but the pass that
/// brought it, which holds it once and lets go of it then, and the base that it is a view of, if it is one.
bool may_be_kept(const Tensor& gradient) {
  const TensorImpl& impl = *gradient.impl();
  const Meta* const meta = impl.meta.get();
  const bool view = meta != nullptr && meta->base.defined() && meta->base.shared_impl().use_count() == 1;
  return !grad_enabled() && gradient.shared_impl().use_count() == 2 && impl.storage.use_count() == (view ? 2 : 1) &&
         (meta == nullptr || (view && meta->node == nullptr && !meta->requires_grad)) && impl.tangents == nullptr &&
         impl.storage->bytes() == gradient.nbytes() && gradient.is_contiguous();
}

}  // namespace

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

void AccumulateGrad::backward(const Gradients& gradients, GradientSink&) {
  const Tensor gradient = gradients[0];
  if (may_be_kept(gradient)) {
    const std::lock_guard lock(meta_->mutex);
    if (!meta_->grad.defined()) {
      meta_->grad = alias(gradient, gradient.sizes(), gradient.strides(), gradient.offset());
      return;
    }
  }
  add_to_grad(*meta_, gradient);
}

}  // namespace deckle::autograd
