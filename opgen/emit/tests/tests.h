#pragma once

#include "opgen/emit/common/emitter.h"

namespace opgen::tests {

/// The suite: every sample of every op as a test case. The calls go to tests/ops/suite.h; files are
/// tests/<stem>_<shard>_test.cpp below the output directory.
void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>& notes);

/// Test cases in the namespace of the library that they test.
std::string within_tests(const Home& home, const std::string& cases);

}  // namespace opgen::tests
