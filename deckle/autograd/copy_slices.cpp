#include "deckle/autograd/copy_slices.h"

#include "deckle/autograd/public_ops.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {

CopySlices::CopySlices(Edge history, const Tensor& base, const Tensor& view, std::shared_ptr<Node> write)
    : layout_(base, view), write_(std::move(write)) {
  add_edge(std::move(history));
  for (size_t slot = 1; slot < write_->edges().size(); ++slot) add_edge(write_->edges()[slot]);
  add_output(base);
}

CopySlices::~CopySlices() { release_deferred(std::move(write_)); }

void CopySlices::release() { write_->release(); }

void CopySlices::backward(const Gradients& gradients, GradientSink& sink) {
  const Tensor memory = layout_.memory_of(clone(gradients[0]));
  const Tensor part = layout_.part(memory);

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
    sink.put(0, layout_.whole(memory));
  }
  for (size_t slot = 1; slot < inner.values().size(); ++slot) sink.put(slot, inner.values()[slot]);
}

}  // namespace deckle::autograd
