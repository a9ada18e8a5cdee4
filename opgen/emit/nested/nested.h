#pragma once

#include "opgen/emit/common/emitter.h"

namespace opgen::nested {

/// Overloads for nested tensors.
void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>& notes);

}  // namespace opgen::nested
