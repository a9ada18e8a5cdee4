#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "deckle/core/tensor.h"
#include "deckle/nested/nested_tensor.h"
#include "deckle/nn/visitor.h"

namespace deckle::nn {

/// What modules are called on.
template <typename X>
concept TensorLike = std::same_as<X, Tensor> || std::same_as<X, NestedTensor>;

struct NamedParameter {
  std::string name;
  Tensor tensor;
};

/// Base of everything with parameters. Calling a module is a function or template of its own:
///   struct Net : nn::Module {
///     nn::Linear first{784, 128}, second{128, 10};
///     nn::Dropout dropout{0.1};
///     DECKLE_MEMBERS(first, second, dropout);
///     Tensor operator()(const Tensor& x) const { return second(dropout(relu(first(x)))); }
///   };
/// Copies share parameters.
class Module {
 public:
  virtual ~Module() = default;

  /// Lists the members; written by DECKLE_MEMBERS.
  virtual void visit(StateVisitor& visitor) = 0;  // a module without DECKLE_MEMBERS(its members) is abstract

  /// In the order in which modules list them; also those that do not require grad. One that stands in several places is listed
  /// once, under its first name: a tied weight is one parameter.
  std::vector<NamedParameter> named_parameters() const;
  std::vector<Tensor> parameters() const;
  int64_t parameter_count() const;
  std::vector<NamedParameter> named_buffers() const;

  /// Of this module and those in it: whether Dropout and the like act as in training. They do at first.
  void train(BoolArg on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Of all parameters: whether they are trained.
  void requires_grad_(BoolArg value = true) const;
  void zero_grad() const;
  /// Moves the parameters and buffers to a device: tensors of their own there, those that are shared within this module still
  /// shared. Gradients stay behind; an optimizer is made of the parameters afterwards: step() of an earlier one is an Error.
  void to(Device device);
  /// The same of a floating dtype; what has none stays as it is.
  void to(DType dtype);

  /// The parameters and buffers by name, one that stands in several places under each of its names, sharing memory with the
  /// module.
  std::map<std::string, Tensor> state() const;
  /// Copies values into the parameters and buffers; names, shapes and dtypes must be exactly those of state(). On an Error
  /// nothing was copied.
  void load_state(const std::map<std::string, Tensor>& state) const;

 private:
  void walk(StateVisitor::Actions actions) const;
  /// Puts what `other` makes of them in the place of parameters and buffers; undefined: they stay. Shared ones stay shared.
  void replace(const std::function<Tensor(const Tensor&)>& other);

  bool training_ = true;
};

}  // namespace deckle::nn
