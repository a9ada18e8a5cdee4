#pragma once

#include "deckle/optim/parameter_list.h"

namespace deckle::optim {

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
};

/// Adam with decoupled weight decay. Loshchilov and Hutter, 2019. Every parameter counts its own steps, those in which it had a
/// gradient; without one it is left as it is.
class AdamW {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});

  void step();
  void zero_grad() const { parameters_.zero_grad(); }
  double lr() const { return options_.lr; }
  void set_lr(double lr);

  /// The step counts and both averages, which share memory with the optimizer.
  State state() const;
  /// On an Error nothing was changed.
  void load_state(const State& state);

 private:
  ParameterList parameters_;
  AdamWOptions options_;
  std::vector<Tensor> averages_;  // of gradients
  std::vector<Tensor> squares_;   // of their squares
  std::vector<int64_t> steps_;    // of each parameter
};

}  // namespace deckle::optim
