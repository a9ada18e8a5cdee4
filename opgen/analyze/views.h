#pragma once

#include "opgen/ir/op.h"

namespace opgen {

/// Whether the op's only result may show elements of its first tensor, `self`: a view of it, or the tensor itself.
bool shows_self(const Op& op);

}  // namespace opgen
