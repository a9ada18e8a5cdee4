#pragma once

#include "tests/ops/suite.h"

namespace deckle::suite {

/// A pointwise op and its first derivatives in float32 against float64, over the whole range of the inputs: denormals, the
/// largest numbers, infinities, NaN and ties. The bounds are one table, in accuracy.cpp.
void check_accuracy(const Case& op);

}  // namespace deckle::suite
