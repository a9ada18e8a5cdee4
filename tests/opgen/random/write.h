#pragma once

#include <string>
#include <vector>

#include "tests/opgen/random/entry.h"

namespace deckle::random_entries {

/// The entry as YAML.
std::string yaml_of(const Entry& entry);

/// The C++ of its kernel; "" for others.
std::string kernel_of(const Entry& entry);

/// C++ that calls it: functions of the tensors of its arguments, in the order of leaves_of(), and a row of the table of Cases.
std::string caller_of(const Entry& entry);
std::string case_of(const Entry& entry);

}  // namespace deckle::random_entries
