#pragma once

#include "opgen/ir/program.h"
#include "opgen/model/entry.h"

namespace opgen {

// The formulas of one entry. Each throws Problem.

/// The overloads of an op that `calls:` names.
std::vector<const Op*> ops_called(const Text& name, const Program& program);

void resolve_composite(const Entry& entry, const Program& program, Op& op);
/// Rules for gradients and tangents.
void resolve_derivative(const Entry& entry, const Program& program, Op& op);

}  // namespace opgen
