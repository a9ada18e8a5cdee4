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
  /// Each group with its own options: SGD({{weights, {.lr = 0.1}}, {biases, {.lr = 0.2}}}).
  explicit SGD(const std::vector<Group<SGDOptions>>& groups);
  template <typename Parameters, std::floating_point T>
  SGD(const Parameters&, T) = delete;                // options have names: optim::SGD({v}, {.lr = 0.1})
  SGD(const std::vector<Tensor>&, double) = delete;  // options have names: optim::SGD({v}, {.lr = 0.1})
  SGD(const SGD&) = delete;                          // a copy would share velocities
  SGD(SGD&&) = default;

  /// Throws while a graph is recorded, whose replays would all have the rate of then. First velocities, and copies of gradients
  /// that are not contiguous, are made before anything is written: on an Error for want of their memory nothing was changed.
  /// Later come lists of some bytes a tensor, and copies of parameters that are not contiguous: if one of these fails, each
  /// group, and in it those with a velocity and those without, took the step as a whole or is as it was.
  void step();
  void zero_grad() const { parameters_.zero_grad(); }
  double lr(size_t group = 0) const;
  /// Sets the learning rate of all groups, or of one.
  void set_lr(double lr);
  void set_lr(size_t group, double lr);

  /// The velocities, sharing memory with the optimizer: of parameters that had a gradient, nothing without momentum.
  State state() const;
  /// On an Error nothing was changed.
  void load_state(const State& state);

 private:
  explicit SGD(Joined<SGDOptions> groups);

  ParameterList parameters_;
  std::vector<SGDOptions> options_;  // by group
  std::vector<size_t> groups_;       // of each parameter
  std::vector<Tensor> velocities_;   // one per parameter, undefined without momentum and before its first gradient
};

}  // namespace deckle::optim
