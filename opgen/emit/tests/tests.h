#pragma once

#include "opgen/emit/common/emitter.h"

namespace opgen::tests {

/// The suite: every sample of every op as a test case. The calls go to tests/ops/suite.h; files are
/// tests/<stem>_<shard>_test.cpp below the output directory.
void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>& notes);

}  // namespace opgen::tests
