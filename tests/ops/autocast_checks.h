#pragma once

#include <vector>

#include "deckle/autograd/autocast.h"
#include "tests/ops/suite.h"

namespace deckle::suite {

/// In the scope of an Autocast the op is itself on converted operands, bit for bit: results, gradients and tangents, and those of
/// second order, in the dtypes of the operands. `converted` says of which tensors its entry says so. Variants that write convert
/// nothing, and are in the scope what they are outside of it.
void check_autocast(const Case& op, autograd::Precision precision, const std::vector<bool>& converted);

}  // namespace deckle::suite
