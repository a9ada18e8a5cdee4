#include "deckle/autograd/copy_slices.h"

#include "deckle/autograd/public_ops.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {

CopySlices::CopySlices(Edge base, ViewFunction replay, std::shared_ptr<Node> write)
    : replay_(std::move(replay)), write_(std::move(write)) {
  add_edge(std::move(base));
  for (size_t slot = 1; slot < write_->edges().size(); ++slot) add_edge(write_->edges()[slot]);
}

CopySlices::~CopySlices() { release_deferred(std::move(write_)); }

void CopySlices::release() { write_->release(); }

void CopySlices::backward(const Gradients& gradients, GradientSink& sink) {
  const Tensor remaining = clone(gradients[0]);
  const Tensor part = replay_(remaining);

  std::vector<bool> wanted(write_->edges().size());
  for (size_t slot = 0; slot < wanted.size(); ++slot) wanted[slot] = sink.wants(slot);
  GradientSink inner(std::move(wanted));
  const std::vector<Tensor> incoming = {clone(part)};
  write_->backward(Gradients(incoming, *write_), inner);

  if (sink.wants(0)) {
    if (inner.values()[0].defined()) {
      copy_(part, inner.values()[0]);
    } else {
      zero_(part);
    }
    sink.put(0, remaining);
  }
  for (size_t slot = 1; slot < inner.values().size(); ++slot) sink.put(slot, inner.values()[slot]);
}

}  // namespace deckle::autograd
