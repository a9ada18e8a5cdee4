#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operands.h"

namespace dense_ops {

enum class Kind { pointwise, compare, reduction, norm, loss, product, window, index, sort, structure, random };

/// One op; the result is its first tensor.
struct Case {
  std::string name;
  Kind kind;
  std::function<deckle::Tensor(const Operands&)> call;
};

const std::vector<Case>& cases();

}  // namespace dense_ops
