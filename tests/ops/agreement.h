#pragma once

#include <functional>
#include <vector>

#include "tests/ops/suite.h"

namespace deckle::suite {

using Tensors = std::vector<Tensor>;
using VectorFunction = std::function<Tensors(const Tensors&)>;

/// What two functions are compared on.
struct Agreement {
  Tensors operands;                  // may hold undefined ones
  std::vector<bool> differentiable;  // by operand
  bool dtypes = true;
  bool derivatives = true;
};

/// Two functions of the same tensors agree: their values, whatever the strides, in all floating dtypes and, of the floating
/// results, their derivatives: reverse mode, forward mode, and both of reverse mode.
void expect_agreement(const Agreement& on, const VectorFunction& got, const VectorFunction& expected);

}  // namespace deckle::suite
