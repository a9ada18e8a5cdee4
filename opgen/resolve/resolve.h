#pragma once

#include "opgen/ir/program.h"
#include "opgen/model/entry.h"

namespace opgen {

/// Entries to ops: every formula, check, allocation and sample. Problems are collected; those of external entries are said where
/// these are compiled.
Program resolve(const Library& library, Problems& problems);

}  // namespace opgen
