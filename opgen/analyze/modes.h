#pragma once

#include "opgen/ir/op.h"

namespace opgen {

/// Both modes differentiate the same inputs, whatever the conditions of the formulas turn out to be; throws Problem.
void check_modes(const Op& op);

}  // namespace opgen
