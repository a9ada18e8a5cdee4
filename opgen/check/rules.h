#pragma once

#include "opgen/model/load.h"

namespace opgen {

/// The rules on entries that need no formulas lowered: every tensor input has a formula or is non_differentiable, samples
/// exist, claimed kernel files exist below `root`, and so on.
void check_entries(const Library& library, const std::string& root, Problems& problems);

/// Every kernel file below `root` is claimed by an op, or stands in ops/pending_kernels.txt with the reason. A .cpp with a
/// header of its own is a part of kernels, not one.
void check_orphans(const Library& library, const std::string& root, Problems& problems);

}  // namespace opgen
