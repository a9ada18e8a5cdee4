#pragma once

#include <map>
#include <string>
#include <vector>

#include "deckle/core/tensor.h"

namespace deckle::optim {

/// The parameters of an optimizer, and lists of running averages that match them.
class ParameterList {
 public:
  /// All must be leaves that require grad, each given once.
  explicit ParameterList(std::vector<Tensor> parameters);

  const std::vector<Tensor>& all() const { return parameters_; }
  /// Indices of the parameters that have a gradient. An Error if one has none and never will, as nothing else holds it.
  std::vector<size_t> with_gradient() const;
  /// Drops the gradients.
  void zero_grad() const;
  /// Zeros shaped like each parameter.
  std::vector<Tensor> zeros() const;

 private:
  std::vector<Tensor> parameters_;
};

/// The gradients of the parameters that have one.
std::vector<Tensor> gradients_of(TensorList parameters);
/// The gradient of a parameter that has one, a copy if it is not contiguous, so that list ops need not make one.
Tensor contiguous_gradient(const Tensor& parameter);

/// An Error unless there is a group.
void check_groups(size_t count);
/// An Error unless there is a group of this number.
void check_group(size_t group, size_t count);

/// Parameters with options of their own.
template <typename Options>
struct Group {
  std::vector<Tensor> parameters;
  Options options;
};

/// All groups as one: the parameters with the group of each, and the options by group.
template <typename Options>
struct Joined {
  std::vector<Tensor> parameters;
  std::vector<size_t> groups;
  std::vector<Options> options;
};

/// An Error if there is no group.
template <typename Options>
Joined<Options> join_groups(const std::vector<Group<Options>>& groups) {
  check_groups(groups.size());
  Joined<Options> result;
  for (const Group<Options>& group : groups) {
    result.parameters.insert(result.parameters.end(), group.parameters.begin(), group.parameters.end());
    result.groups.resize(result.parameters.size(), result.options.size());
    result.options.push_back(group.options);
  }
  return result;
}

/// An optimizer's state: tensors by name.
using State = std::map<std::string, Tensor>;

/// "name.i": where a state keeps the i-th tensor of a list.
std::string state_key(const std::string& name, size_t i);

/// Puts the defined tensors of `list` into a state.
void put_state(State& state, const std::string& name, const std::vector<Tensor>& list);

/// The tensor at `key`; an Error if it is missing or not of the shape and dtype of `like`.
const Tensor& find_state(const State& state, const std::string& key, const Tensor& like);

/// find_state for each of `list`. Look up everything first, then copy: a state that does not fit must change nothing.
std::vector<Tensor> find_state(const State& state, const std::string& name, const std::vector<Tensor>& list);

/// Copies element for element.
void copy_state(const std::vector<Tensor>& to, const std::vector<Tensor>& from);

/// An Error unless the learning rate is a number of 0 or more.
void check_lr(double lr);

}  // namespace deckle::optim
