#pragma once

#include <vector>

#include "tests/ops/autocast_checks.h"
#include "tests/ops/nested_suite.h"

namespace deckle::suite {

/// The same of the overload for nested tensors, on components that are the sample, or on a batch that is: bit for bit what it is
/// on converted operands.
void check_autocast(const NestedCase& op, autograd::Precision precision, const std::vector<bool>& converted);

/// Of an overload whose results are dense.
NestedTensors dense_results(const Tensor& result);

}  // namespace deckle::suite
