#pragma once

#include "opgen/ir/program.h"
#include "opgen/model/entry.h"

namespace opgen {

/// What happens between the call of an op and its kernel: expressions, dims that are wrapped, checks, allocations. Throws
/// Problem.
void resolve_launch(const Entry& entry, const Program& program, const Library& library, Op& op);

}  // namespace opgen
