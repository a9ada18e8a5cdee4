#pragma once

#include "deckle/autograd/node.h"
#include "deckle/autograd/view_layout.h"

namespace deckle::autograd {

/// History of a base after an in-place write to a view of it: the gradient of the written part goes through the write's
/// node, that of the rest on to the base's earlier history.
class CopySlices final : public Node {
 public:
  /// `history` is where the base came from; `write` the node of the in-place op, whose input `self_slot` is the view (kNoSlot:
  /// none is).
  CopySlices(Edge history, const Tensor& base, const Tensor& view, std::shared_ptr<Node> write, size_t self_slot);
  ~CopySlices() override;

  std::string_view name() const override { return write_ ? write_->name() : "copy_slices"; }
  void backward(const Gradients& gradients, GradientSink& sink) override;
  void release() override;

 private:
  ViewLayout layout_;
  std::shared_ptr<Node> write_;
  size_t self_slot_;  // of write_; its other inputs are this node's from slot 1 on, in their order
};

}  // namespace deckle::autograd
