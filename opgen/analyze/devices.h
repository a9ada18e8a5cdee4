#pragma once

#include "opgen/ir/program.h"

namespace opgen {

/// Whether an op computes on the CPU alone: its kernel has no CUDA part, and its entry does not say `host`.
bool is_of_cpu(const Op& op);

/// No formula that runs on a GPU may call an op of the CPU alone; such an op is for the `cpu:` formulas of composites by device,
/// and for the derivatives of its like.
void check_devices(const Program& program, Problems& problems);

}  // namespace opgen
