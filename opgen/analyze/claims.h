#pragma once

#include "opgen/ir/program.h"

namespace opgen {

/// What an entry claims and the tree knows better: auto_linear of an op whose gradient depends on what it is linear in, and
/// auto_element_wise of one whose gradient is more than element by element.
void check_claims(const Program& program, Problems& problems);

}  // namespace opgen
