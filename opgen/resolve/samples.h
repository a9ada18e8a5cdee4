#pragma once

#include "opgen/ir/op.h"
#include "opgen/model/entry.h"

namespace opgen {

/// The samples of an entry and of its overload for nested tensors, checked against the signature. Throws Problem.
void resolve_samples(const Entry& entry, const Library& library, Op& op);

}  // namespace opgen
