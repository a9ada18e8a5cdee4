#pragma once

#include <set>
#include <string>

#include "opgen/ir/term.h"

namespace opgen {

/// The same formula with every call of an op on tensors made once: one that stands in several places, and is evaluated in any
/// case, becomes a let. What draws random numbers, or copies, is left alone. `taken`: names that lets may not have.
Block share_common_calls(const Block& formula, const std::set<std::string>& taken);

}  // namespace opgen
