#pragma once

#include "opgen/emit/common/emitter.h"

namespace opgen::tests {

/// The ragged suite: every op whose overloads for nested tensors are generated, each of its samples as a component, and those
/// written by hand whose rule gives samples of components. The calls go to tests/ops/nested_suite.h; files are
/// tests/nested_<stem>_<shard>_test.cpp below the output directory.
void emit_nested(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>& notes);

}  // namespace opgen::tests
