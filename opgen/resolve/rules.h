#pragma once

#include "opgen/ir/program.h"
#include "opgen/model/entry.h"

namespace opgen {

// The formulas of one entry. Each throws Problem.

void resolve_composite(const Entry& entry, const Program& program, Op& op);
/// Rules for gradients and tangents.
void resolve_derivative(const Entry& entry, const Program& program, Op& op);

}  // namespace opgen
