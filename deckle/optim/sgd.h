#pragma once

#include "deckle/optim/parameter_list.h"

namespace deckle::optim {

struct SGDOptions {
  double lr = 1e-2;
  double momentum = 0;
  double dampening = 0;     // fraction of the gradient withheld from momentum, but not from its first value
  double weight_decay = 0;  // added to the gradient
  bool nesterov = false;
};

/// Stochastic gradient descent, with momentum if asked for. A parameter without a gradient is left as it is.
class SGD {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SGDOptions& options = {});

  void step();
  void zero_grad() const { parameters_.zero_grad(); }
  double lr() const { return options_.lr; }
  void set_lr(double lr);

  /// The velocities, sharing memory with the optimizer: of parameters that had a gradient, nothing without momentum.
  State state() const;
  /// On an Error nothing was changed.
  void load_state(const State& state);

 private:
  ParameterList parameters_;
  SGDOptions options_;
  std::vector<Tensor> velocities_;  // with momentum one per parameter, undefined before its first gradient
};

}  // namespace deckle::optim
