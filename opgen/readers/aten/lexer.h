#pragma once

#include <string>
#include <vector>

#include "opgen/text/source.h"

namespace opgen::aten {

/// A word of a C++ expression. Qualified names are one word, `std::get`; comments are none.
struct Token {
  enum class Kind { end, number, string, name, symbol };
  Kind kind = Kind::end;
  std::string text;  // numbers without a suffix, strings without quotes
  size_t offset = 0;

  bool is(std::string_view symbol) const { return kind == Kind::symbol && text == symbol; }
};

/// The words of `text` and an end; throws Problem.
std::vector<Token> tokenize(const Text& text);

}  // namespace opgen::aten
