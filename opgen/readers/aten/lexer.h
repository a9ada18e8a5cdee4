#pragma once

#include <vector>

#include "opgen/formula/tokens.h"
#include "opgen/text/source.h"

namespace opgen::aten {

/// The words of a C++ expression and an end; throws Problem. Qualified names are one word, `std::get`; comments are none; numbers
/// have no suffix.
std::vector<Token> tokenize(const Text& text);

}  // namespace opgen::aten
