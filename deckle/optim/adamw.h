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

/// Adam with decoupled weight decay. Loshchilov and Hutter, 2019. Steps are counted for the optimizer as a whole; a parameter
/// without a gradient is left as it is.
class AdamW {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});

  void step();
  void zero_grad() const { parameters_.zero_grad(); }
  double lr() const { return options_.lr; }
  void set_lr(double lr) { options_.lr = lr; }

  /// The step count and both averages, sharing memory with the optimizer.
  std::map<std::string, Tensor> state() const;
  void load_state(const std::map<std::string, Tensor>& state);

 private:
  ParameterList parameters_;
  AdamWOptions options_;
  std::vector<Tensor> averages_;  // of gradients
  std::vector<Tensor> squares_;   // of their squares
  int64_t steps_ = 0;
};

}  // namespace deckle::optim
