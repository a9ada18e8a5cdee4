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
  /// Each group with its own options: AdamW({{weights, {.lr = 1e-3}}, {biases, {.weight_decay = 0}}}).
  explicit AdamW(const std::vector<Group<AdamWOptions>>& groups);
  AdamW(const AdamW&) = delete;  // a copy would share averages and count steps of its own
  AdamW(AdamW&&) = default;

  /// Copies of gradients, where a step needs them, are made before anything is written: on an Error for want of their memory
  /// nothing was changed. Later come lists of some bytes a tensor, and copies of parameters that are not contiguous: if one of
  /// these fails, each group, and in it those of one count, took the step as a whole or is as it was.
  void step();
  void zero_grad() const { parameters_.zero_grad(); }
  double lr(size_t group = 0) const;
  /// Sets the learning rate of all groups, or of one.
  void set_lr(double lr);
  void set_lr(size_t group, double lr);

  /// From now on learning rates and counts lie where the parameters are, so that a step may be part of a cuda::Graph: set_lr
  /// writes there, and a step where the bool `skip`, of one element there, is set changes nothing. Each step all parameters must
  /// have a gradient, and those of a group the same count. state() waits for the device. A graph that was recorded goes on from
  /// what load_state, or another call of this, sets.
  void count_on_device(const Tensor& skip = {});

  /// The step counts and both averages, which share memory with the optimizer.
  State state() const;
  /// On an Error nothing was changed.
  void load_state(const State& state);

 protected:
  /// How weight decay acts: beside the step, or as part of the gradient.
  enum class Decay { decoupled, gradient };
  AdamW(const std::vector<Group<AdamWOptions>>& groups, Decay decay, const char* name);

 private:
  AdamW(Joined<AdamWOptions> groups, Decay decay, const char* name);

  /// Parameters of one group and count, and the lists of their step.
  struct Part {
    std::vector<size_t> indices;
    std::vector<Tensor> values, gradients, averages, squares;
  };
  /// A step of parameters of one group, whose count is `step` - 1, or lies on the device.
  void step_part(size_t group, int64_t step, const Part& part);
  /// Steps that each parameter has taken.
  std::vector<int64_t> counts() const;
  /// Of each group; throws where those of its parameters differ.
  std::vector<int64_t> by_group(const std::vector<int64_t>& counts) const;
  /// Sets rates and counts on the device, in place: a graph that was recorded goes on with them.
  void write_counters(const std::vector<int64_t>& steps);

  const char* name_;  // for messages
  ParameterList parameters_;
  std::vector<AdamWOptions> options_;  // by group
  std::vector<size_t> groups_;         // of each parameter
  Decay decay_;
  std::vector<Tensor> averages_;  // of gradients
  std::vector<Tensor> squares_;   // of their squares
  std::vector<int64_t> steps_;    // of each parameter
  std::vector<Tensor> counters_;  // by group, learning rate and steps in float64 on the device; none: the host counts
  Tensor skip_;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // times the parameter is added to its gradient
};

/// Kingma and Ba, 2015. State and groups are those of AdamW.
class Adam final : public AdamW {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& options = {});
  explicit Adam(const std::vector<Group<AdamOptions>>& groups);
  template <typename Parameters, std::floating_point T>
  Adam(const Parameters&, T) = delete;                // options have names: optim::Adam({v}, {.lr = 0.1})
  Adam(const std::vector<Tensor>&, double) = delete;  // options have names: optim::Adam({v}, {.lr = 0.1})
};

}  // namespace deckle::optim
