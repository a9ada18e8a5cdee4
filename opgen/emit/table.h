#pragma once

#include "opgen/emit/files.h"

namespace opgen {

/// The table behind `deckle ops`: kernels, saved values and derivatives of each op, as far as they are known now. The
/// derivatives that do not exist are appended to `notes`.
void emit_table(const Library& library, Files& files, Problems& problems, std::vector<std::string>& notes);

}  // namespace opgen
