#pragma once

#include "opgen/ir/program.h"

namespace opgen {

/// What formulas of derivatives must be, whatever the op is: gradients linear in what arrives, tangents linear in tangents, and
/// both for the same inputs.
void check_derivatives(const Program& program, Problems& problems);

}  // namespace opgen
