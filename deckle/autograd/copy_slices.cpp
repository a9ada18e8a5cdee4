#include "deckle/autograd/copy_slices.h"

#include "deckle/autograd/public_ops.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {

CopySlices::CopySlices(Edge history, const Tensor& base, const Tensor& view, std::shared_ptr<Node> write, size_t self_slot)
    : layout_(base, view), write_(std::move(write)), self_slot_(self_slot) {
  add_edge(std::move(history));
  for (size_t slot = 0; slot < write_->edges().size(); ++slot) {
    if (slot != self_slot_) add_edge(write_->edges()[slot]);
  }
  add_output(base);
}

CopySlices::~CopySlices() { release_deferred(std::move(write_)); }

void CopySlices::release() {
  // A recorded backward may lead to the write itself, through the result that it saved: it runs after this node (nodes run in
  // the reverse order of their recording) and then lets go of what it saved.
  if (write_.use_count() == 1) write_->release();
}

void CopySlices::backward(const Gradients& gradients, GradientSink& sink) {
  const Tensor memory = layout_.memory_of(clone(gradients[0]));
  const Tensor part = layout_.part(memory);

  GradientSink::Wanted wanted;
  for (size_t slot = 0, next = 1; slot < write_->edges().size(); ++slot) {
    wanted.push_back(sink.wants(slot == self_slot_ ? 0 : next++));
  }
  GradientSink inner(std::move(wanted));
  const std::vector<Tensor> incoming = {clone(part)};
  write_->backward(Gradients(incoming, *write_), inner);

  if (sink.wants(0)) {
    const bool passes = self_slot_ < inner.values().size() && inner.values()[self_slot_].defined();
    passes ? copy_(part, inner.values()[self_slot_]) : zero_(part);
    sink.put(0, layout_.whole(memory));
  }
  for (size_t slot = 0, next = 1; slot < inner.values().size(); ++slot) {
    if (slot != self_slot_) sink.put(next++, inner.values()[slot]);
  }
}

}  // namespace deckle::autograd
