#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data.h"

namespace nested_ops {

/// What decides the time, and with it the limit of nested time / dense time.
enum class Kind { pointwise, norm, linear, reduction, segment, structure, product, sort };

/// What the times are divided by: nothing (all rows are the same work), the sum of squared lengths, or of n log n.
enum class Work { rows, pairs, order };

/// One op; the result is its first tensor. A function is empty where it means nothing.
struct Case {
  std::string name;
  Kind kind;
  std::function<deckle::Tensor(const Operands<deckle::NestedTensor>&)> nested;
  std::function<deckle::Tensor(const Operands<deckle::Tensor>&)> dense;
  Work work = Work::rows;
  bool for_many = true;  // false: the memory or the result grows with components times features, or lengths squared
};

const std::vector<Case>& cases();

}  // namespace nested_ops
