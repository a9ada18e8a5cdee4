#pragma once

#include <string>

#include "opgen/emit/cpp/printer.h"

namespace opgen::cpp {

/// Statements that hold lists to the lengths of their types (int[2]) and enums to their values, before anything reads them.
std::string require_arguments(const Op& op);
/// Those of enums alone.
std::string require_enums(const Op& op);

/// Statements that refuse what the `check:` of an entry does not allow.
std::string print_checks(const Op& op, const Place& place);

}  // namespace opgen::cpp
