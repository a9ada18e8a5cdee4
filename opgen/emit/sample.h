#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "opgen/emit/sample_values.h"
#include "opgen/model/entry.h"

namespace opgen {

/// One sample of an op in C++, for the suites that run on it.
class Sample {
 public:
  /// One tensor of the call, lists flattened.
  struct Tensor {
    std::string made;  // C++ that makes it: random.normal({4, 7})
    bool differentiable;
    std::string argument;
  };

  /// Throws Problem where the sample does not fit the op.
  Sample(const Entry& entry, const YAML::Node& node);

  /// One per argument of the schema; tensors read t[0], t[1], ...
  const std::vector<std::string>& arguments() const { return arguments_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

  bool given(const Argument& argument) const { return node_[argument.name].IsDefined() && !node_[argument.name].IsNull(); }
  /// Of a tensor argument that is given.
  std::vector<int64_t> shape(const std::string& argument) const { return values_.shape(node_[argument]); }
  /// Whether derivatives are tested.
  bool differentiable() const;

 private:
  void check_keys() const;
  std::string add_tensor(const Argument& argument, const YAML::Node& node);
  std::string argument_text(const Argument& argument);

  const Entry& entry_;
  SampleValues values_;
  YAML::Node node_;
  std::vector<Tensor> tensors_;
  std::vector<std::string> arguments_;
};

/// Whether an argument of the op is of this type.
bool takes(const Entry& entry, Base base);

}  // namespace opgen
