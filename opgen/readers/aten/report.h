#pragma once

#include <string>

#include "opgen/readers/aten/check.h"

namespace opgen::aten {

/// Every record as it was understood, then what is not typed, then the counts.
std::string text_of(const Checked& checked, bool entries);
std::string json_of(const Checked& checked, const Problems& problems);

}  // namespace opgen::aten
