#pragma once

#include "opgen/ir/program.h"

namespace opgen {

/// Of the results that entries say are cheap to compute again, those whose operands a node keeps anyway, wherever its formulas
/// read the result: these call the op again, and the result is not saved.
void choose_recomputed(Program& program);

}  // namespace opgen
