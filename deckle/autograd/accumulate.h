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

 private:
  std::shared_ptr<Meta> meta_;
};

}  // namespace deckle::autograd
