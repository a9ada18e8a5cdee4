#pragma once

#include <vector>

#include "deckle/core/tensor.h"

namespace deckle::random_entries {

/// A compiled entry as functions of the tensors of its arguments.
struct Case {
  using Function = std::vector<Tensor> (*)(const std::vector<Tensor>& tensors);
  const char* name;
  Function function;
  Function inplace;  // writes tensors[0] and returns it; nullptr: no such variant
  Function out;      // writes tensors.back(), the result; nullptr: no such variant
};

}  // namespace deckle::random_entries
