#pragma once

#include "opgen/emit/files.h"

namespace opgen {

/// The test suite of each op, out of its samples: one GoogleTest case per sample, which describes the call to tests/ops/suite.h.
/// Files are tests/<stem>_<shard>_test.cpp below the output directory.
void emit_tests(const Library& library, const OutputOptions& options, Files& files, Problems& problems);

}  // namespace opgen
