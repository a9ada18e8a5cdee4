#pragma once

#include <map>
#include <string>
#include <vector>

#include "deckle/core/tensor.h"

namespace deckle::optim {

/// The parameters of an optimizer, and lists of running averages that match them.
class ParameterList {
 public:
  /// All must be leaves that require grad.
  explicit ParameterList(std::vector<Tensor> parameters);

  const std::vector<Tensor>& all() const { return parameters_; }
  /// Indices of the parameters that have a gradient.
  std::vector<size_t> with_gradient() const;
  /// Drops the gradients.
  void zero_grad() const;
  /// Zeros shaped like each parameter.
  std::vector<Tensor> zeros() const;

 private:
  std::vector<Tensor> parameters_;
};

/// The tensors of `list` at `indices`.
std::vector<Tensor> pick(const std::vector<Tensor>& list, const std::vector<size_t>& indices);

/// The gradients of the parameters at `indices`.
std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters, const std::vector<size_t>& indices);

/// Puts `list` into a state as "name.0", "name.1" ...
void put_state(std::map<std::string, Tensor>& state, const std::string& name, const std::vector<Tensor>& list);

/// Copies "name.0" ... of a state into `list`; an Error, before anything is copied, if one is missing or of another shape.
void take_state(const std::map<std::string, Tensor>& state, const std::string& name, const std::vector<Tensor>& list);

}  // namespace deckle::optim
