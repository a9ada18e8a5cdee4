#pragma once

#include "opgen/emit/files.h"

namespace opgen {

/// The ragged suite, for samples that emit_tests() found nothing wrong with: every op whose overloads for nested tensors are
/// generated, each of its samples as a component, and those written by hand whose rule gives samples of components. The calls go
/// to tests/ops/nested_suite.h; files are tests/nested_<stem>_<shard>_test.cpp below the output directory.
void emit_nested_tests(const Library& library, const OutputOptions& options, Files& files, Problems& problems);

}  // namespace opgen
