#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "deckle/core/tensor.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle::nn {

/// What modules are called on.
template <typename X>
concept TensorLike = std::same_as<X, Tensor> || std::same_as<X, NestedTensor>;

class Module;

/// Collects the parameters of modules under dotted names: "blocks.0.attention.query.weight".
class StateVisitor {
 public:
  using Action = std::function<void(const std::string& name, Tensor& parameter)>;
  explicit StateVisitor(Action action) : action_(std::move(action)) {}

  /// An undefined tensor (a bias that is left out) is no parameter.
  void parameter(const std::string& name, Tensor& tensor) {
    if (tensor.defined()) action_(prefix_ + name, tensor);
  }
  void child(const std::string& name, Module& module);
  template <std::derived_from<Module> M>
  void children(const std::string& name, std::vector<M>& modules) {
    for (size_t i = 0; i < modules.size(); ++i) child(name + "." + std::to_string(i), modules[i]);
  }

 private:
  Action action_;
  std::string prefix_;
};

struct NamedParameter {
  std::string name;
  Tensor tensor;
};

/// Base of everything with parameters. Virtual for parameters and state only; calling a module is a template of its own.
/// Copies share parameters.
class Module {
 public:
  virtual ~Module() = default;

  /// Lists the module's own parameters and its children.
  virtual void visit(StateVisitor& visitor) = 0;

  /// In the order in which modules list them.
  std::vector<NamedParameter> named_parameters() const;
  std::vector<Tensor> parameters() const;
  int64_t parameter_count() const;

  /// The parameters by name, sharing memory with the module.
  std::map<std::string, Tensor> state() const;
  /// Copies values into the parameters; names, shapes and dtypes must be exactly those of state(). On an Error nothing was
  /// copied.
  void load_state(const std::map<std::string, Tensor>& state) const;
};

}  // namespace deckle::nn
