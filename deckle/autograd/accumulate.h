#pragma once

#include "deckle/autograd/meta.h"

namespace deckle::autograd {

/// The sink of a leaf: adds what arrives to its grad().
class AccumulateGrad final : public Node {
 public:
  AccumulateGrad(std::shared_ptr<Meta> meta, const Tensor& leaf);

  std::string_view name() const override { return "accumulate_grad"; }
  void backward(const Gradients& gradients, GradientSink& sink) override;

 private:
  std::shared_ptr<Meta> meta_;
};

}  // namespace deckle::autograd
