#pragma once

#include <vector>

#include "deckle/autograd/grad_mode.h"
#include "deckle/core/tensor.h"

namespace deckle::functional {

/// One call of a transform of reverse mode: recording is on while it lives, and its variables are those that the function is
/// differentiated by. What it gives has history where recording was on before and somebody outside of the call may ask for a
/// derivative by something that the function was computed from: by the transform's own inputs, a tensor that the function
/// captures, a cotangent, a tangent of forward mode. Otherwise no graph outlives the call.
class ReverseScope {
 public:
  explicit ReverseScope(TensorList inputs);
  ~ReverseScope();
  ReverseScope(const ReverseScope&) = delete;
  ReverseScope& operator=(const ReverseScope&) = delete;

  const std::vector<Tensor>& variables() const { return variables_; }

  /// The gradient of each variable; zeros where no output depends on a floating one. Undefined cotangents stand for zeros; none
  /// at all for 1, for an output of one element. With `again` the outputs' graph stays for another call.
  std::vector<Tensor> gradients(TensorList outputs, TensorList cotangents, bool again = false) const;

  /// `outputs` to give away, whose gradients were the last asked for.
  std::vector<Tensor> results(TensorList outputs) const;

 private:
  bool outside_;  // whether recording was on: the member before the one that turns it on
  EnableGrad recording_;
  std::vector<Tensor> variables_;
  mutable bool keeps_ = false;  // whether the last gradients have history
};

}  // namespace deckle::functional
