#pragma once

#include "opgen/ir/program.h"

namespace opgen {

/// Chooses, among the results that entries declare cheap to compute again, those whose operands a node keeps anyway wherever its
/// formulas read the result: the formulas then call the op again, and the result is not saved.
void choose_recomputed(Program& program);

}  // namespace opgen
