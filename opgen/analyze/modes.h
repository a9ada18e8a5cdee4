#pragma once

#include "opgen/ir/op.h"

namespace opgen {

/// Each case of a formula applies to some call; throws Problem.
void check_cases(const Op& op);

/// Both modes differentiate the same inputs, whatever the conditions of the formulas turn out to be; throws Problem.
void check_modes(const Op& op);

}  // namespace opgen
