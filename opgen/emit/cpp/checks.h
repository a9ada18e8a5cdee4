#pragma once

#include <string>

#include "opgen/emit/cpp/printer.h"

namespace opgen::cpp {

/// Statements that refuse what the `check:` of an entry does not allow.
std::string print_checks(const Op& op, const Place& place);

}  // namespace opgen::cpp
