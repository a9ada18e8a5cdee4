#pragma once

#include <string>
#include <vector>

#include "opgen/model/entry.h"

namespace opgen {

/// What a sample writes for an argument, checked and in C++; each throws Problem at the node that is wrong.
class SampleValues {
 public:
  explicit SampleValues(std::string file) : file_(std::move(file)) {}

  [[noreturn]] void fail(const YAML::Node& node, const std::string& message) const;
  /// One number or bool for an argument of type `base`.
  std::string number(const YAML::Node& node, Base base) const;
  std::string dtype(const YAML::Node& node) const;
  /// Lengths of components, or sizes with several ragged dims.
  std::string ragged(const YAML::Node& node) const;
  std::vector<int64_t> shape(const YAML::Node& node) const;
  /// The call of suite::Random that makes the tensor, and whether derivatives may be taken for it.
  struct Tensor {
    std::string cpp;
    bool differentiable;
  };
  Tensor tensor(const YAML::Node& node) const;

 private:
  int64_t whole(const YAML::Node& node) const;
  int64_t size(const YAML::Node& node) const;
  std::vector<int64_t> sizes(const YAML::Node& node) const;
  void check_rectangular(const YAML::Node& node, const std::vector<int64_t>& shape, size_t level) const;
  void collect(const YAML::Node& node, std::vector<std::string>& values) const;

  std::string file_;
};

}  // namespace opgen
