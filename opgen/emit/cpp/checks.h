#pragma once

#include <string>

#include "opgen/emit/cpp/printer.h"

namespace opgen::cpp {

/// Statements that hold lists to the lengths of their types (int[2]) and enums to their values, before anything reads them.
std::string require_arguments(const Op& op);
/// The statement that refuses what one check does not allow.
std::string print_check(const Check& check, const Place& place);
/// Statements that refuse what the `check:` of an entry does not allow.
std::string print_checks(const Op& op, const Place& place);

}  // namespace opgen::cpp
