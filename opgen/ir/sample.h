#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opgen {

/// A tensor that a test makes. Numbers are as formulas write them: 2.5, inf, true.
struct SampleTensor {
  enum class Kind { normal, uniform, integers, values };
  Kind kind = Kind::normal;
  std::vector<int64_t> shape;
  std::string low, high;            // of uniform and integers
  std::vector<std::string> values;  // of values, in row-major order
  std::string dtype = "float64";
  bool differentiable = false;
  size_t argument = 0;  // which argument of the op it is, or is an element of
};

/// What a call is given for one argument.
struct SampleArgument {
  enum class Kind { absent, standard, tensor, tensors, number, numbers, dtype, text, enumerator, ragged, generator };
  Kind kind = Kind::absent;         // absent: none; standard: the default of the signature
  bool given = false;               // by the sample, not left out
  size_t first = 0, count = 0;      // of tensor and tensors: places in Sample::tensors
  std::vector<std::string> values;  // of number, numbers, dtype, text, enumerator
  std::vector<int64_t> sizes;       // of ragged, component by component
  size_t ragged_dims = 0;           // sizes of each component; 0: one, the lengths
};

/// One call of an op on which the generated suites run: an argument for each of the signature.
struct Sample {
  std::vector<SampleTensor> tensors;
  std::vector<SampleArgument> arguments;
  bool differentiable = false;  // whether derivatives are tested

  const SampleTensor& tensor_of(size_t argument) const { return tensors[arguments[argument].first]; }
};

}  // namespace opgen
