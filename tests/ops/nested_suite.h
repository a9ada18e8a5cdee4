#pragma once

#include "deckle/nested/nested_tensor.h"
#include "tests/ops/suite.h"

/// The suite of all ops on nested tensors. A sample of an op is one component; check() makes batches of such components on several
/// raggedness patterns and holds the op on the batch to the loop over its components: values and derivatives in all modes.
namespace deckle::suite {

using Tensors = std::vector<Tensor>;
using NestedTensors = std::vector<NestedTensor>;

struct Operand {
  std::function<Tensor()> make;  // a tensor of the sample's shape
  bool nested;
  bool differentiable;
};

struct NestedCase {
  std::string name;
  std::vector<Operand> operands;
  std::vector<int64_t> dims;  // that the sample names, of a component
  std::function<Tensors(const Tensors& t)> dense;
  /// Dims from 0 on are moved by `shift`: 1 where the sample is a component, 0 where it is the batch. n[i] is operand i if that is
  /// nested, else t[i].
  std::function<NestedTensors(const NestedTensors& n, const Tensors& t, int64_t shift)> nested;
  bool pointwise = false;
  bool rows = false;      // works on the last dim, which is to be regular
  bool any_dim = false;   // takes the batch and ragged dims too; other ops refuse them
  bool inserts = false;   // dims are places of new ones
  bool derivatives = true;
  bool dtypes = true;
};

void check(const NestedCase& op);

inline int64_t shifted(int64_t dim, int64_t shift) { return dim < 0 ? dim : dim + shift; }
std::vector<int64_t> shifted(Ints dims, int64_t shift);
/// The dims of a tensor of that rank, moved.
std::vector<int64_t> all_dims(size_t rank, int64_t shift);

inline NestedTensors results(const NestedTensor& result) { return {result}; }
inline NestedTensors results(const NestedTensors& result) { return result; }
template <typename... T>
NestedTensors results(const std::tuple<NestedTensor, T...>& result) {
  return std::apply([](const auto&... element) { return NestedTensors{element...}; }, result);
}

}  // namespace deckle::suite
