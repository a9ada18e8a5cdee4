#pragma once

#include "deckle/autograd/node.h"
#include "deckle/autograd/view_layout.h"

namespace deckle::autograd {

/// History of a base after an in-place write to a view of it: the gradient of the written part goes through the write's
/// node, that of the rest on to the base's earlier history.
class CopySlices final : public Node {
 public:
  /// `history` is where the base came from; `write` the node of the in-place op, whose first input is the view.
  CopySlices(Edge history, const Tensor& base, const Tensor& view, std::shared_ptr<Node> write);
  ~CopySlices() override;

  std::string_view name() const override { return write_ ? write_->name() : "copy_slices"; }
  void backward(const Gradients& gradients, GradientSink& sink) override;
  void release() override;

 private:
  ViewLayout layout_;
  std::shared_ptr<Node> write_;
};

}  // namespace deckle::autograd
