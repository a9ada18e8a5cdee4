#pragma once

#include <string>

#include "tests/opgen/random/case.h"
#include "tests/opgen/random/draw.h"

namespace deckle::random_entries {

/// Values and derivatives of a compiled entry at drawn points, against the interpreter and against differences. "" or what is
/// wrong.
std::string check_case(const Case& compiled, const Entry& entry, const Entries& others, Engine& engine);

}  // namespace deckle::random_entries
