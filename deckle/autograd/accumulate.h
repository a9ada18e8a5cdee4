#pragma once

#include "deckle/autograd/meta.h"

namespace deckle::autograd {

/// Adds a gradient to the one of `meta`, which owns its memory: the same gradient may have reached another tensor, and
/// users write to grad() in place. Part of a graph itself while recording is on.
void add_to_grad(Meta& meta, const Tensor& gradient);

/// The sink of a leaf: adds what arrives to its grad().
class AccumulateGrad final : public Node {
 public:
  AccumulateGrad(std::shared_ptr<Meta> meta, const Tensor& leaf);

  std::string_view name() const override { return "accumulate_grad"; }
  bool wants_zeros() const override { return true; }
  void backward(const Gradients& gradients, GradientSink& sink) override;

  /// Of the variable of a transform that has returned: nobody will ask for the gradient.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

 private:
  std::shared_ptr<Meta> meta_;
  bool closed_ = false;
};

/// The node as the sink of a leaf, if it is one.
inline const AccumulateGrad* as_leaf(const Node& node) {
  return node.edges().empty() ? dynamic_cast<const AccumulateGrad*>(&node) : nullptr;
}

}  // namespace deckle::autograd
