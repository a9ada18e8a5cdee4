#pragma once

#include "opgen/ir/program.h"

namespace opgen {

/// An op in the formula, or in what it calls, that does not act element by element; null if there is none.
const Op* whole_op(const Block& formula);

/// The first call in a gradient or tangent of a pointwise op that gives its elements anything but values of the same elements:
/// all but pointwise ops, copies and filled tensors, and sums over broadcast dims around the whole, or their negative. Null if
/// there is none.
const Term* call_beyond_elements(const Block& formula);

}  // namespace opgen
