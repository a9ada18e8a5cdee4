#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// The rules on entries that need no formulas lowered: every tensor input has a formula or is non_differentiable, samples
/// exist, claimed kernel files exist below `root`, and so on.
void check_entries(const Library& library, const std::string& root, Problems& problems);

/// The rules on Deckle's own ops: each says what it does to nested tensors, and no kernel file is without an op.
void check_library(const Library& library, const std::string& root, Problems& problems);

}  // namespace opgen
