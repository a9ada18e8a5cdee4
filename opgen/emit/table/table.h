#pragma once

#include "opgen/emit/common/emitter.h"

namespace opgen::table {

/// The table behind `deckle ops`. Notes tell which derivatives do not exist.
void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>& notes);

}  // namespace opgen::table
