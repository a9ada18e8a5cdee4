#pragma once

#include "opgen/ir/program.h"

namespace opgen {

/// Derivatives that are written for pointwise ops are those of the expression: their values, at drawn points, are held against
/// differences.
void check_slopes(const Program& program, Problems& problems);

}  // namespace opgen
