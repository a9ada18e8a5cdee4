#pragma once

#include "opgen/emit/common/emitter.h"

namespace opgen::cpp {

/// The library: headers, sources and kernels of all ops.
void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>& notes);

}  // namespace opgen::cpp
