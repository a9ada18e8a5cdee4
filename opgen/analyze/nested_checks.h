#pragma once

#include "opgen/ir/program.h"

namespace opgen {

/// Overloads for nested tensors that are written by hand begin with the checks of the entry: what these ask must be known of
/// nested operands as it is of dense ones, or the entry says why it stands in C++, `by_hand`.
void check_nested_checks(const Program& program, Problems& problems);

}  // namespace opgen
