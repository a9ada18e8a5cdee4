#pragma once

#include <array>

#include "tests/ops/agreement.h"
#include "tests/ops/nested_coverage.h"

/// The suite of all ops on nested tensors. A sample of an op is one component; check() makes batches of such components on
/// several ragged shapes and holds the op on the batch to the loop over its components: values and derivatives in all
/// modes. Over the batch it is held to the op on the positions that components share.
namespace deckle::suite {

using NestedTensors = std::vector<NestedTensor>;

struct Operand {
  Tensor (*make)(Random& random);  // a tensor of the sample's shape
  bool nested;
  bool differentiable;
};

struct NestedCase {
  std::string name;
  std::vector<Operand> operands;
  mutable Random random;      // what they are drawn from
  std::vector<int64_t> dims;  // that the sample names, of a component
  Tensors (*dense)(const Tensors& t);
  /// Dims from 0 on are moved by `shift`: 1 where the sample is a component, 0 where it is the batch. n[i] is operand i if that
  /// is nested, else t[i].
  NestedTensors (*nested)(const NestedTensors& n, const Tensors& t, int64_t shift);
  std::array<std::string, 3> refused;  // by kind of dim: the reason
  bool pointwise = false;
  bool rows = false;         // works on the last dim, which is to be regular
  bool by_position = false;  // over the batch: at each position the op of the components that reach it
  bool by_hand = false;      // refuses a batch where the dense op refuses a component; may have more results, empty ones
  bool inserts = false;      // dims are places of new ones
  bool host = false;         // said by the entry: it reads values on the host
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
