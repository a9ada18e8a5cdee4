#pragma once

#include <string>
#include <string_view>

#include "opgen/text/source.h"

namespace opgen {

/// The characters of a signature, read from the front; blanks stand where they like, but where something must be adjacent.
class Scanner {
 protected:
  explicit Scanner(const Text& text) : text_(text), source_(text.value()) {}

  [[noreturn]] void fail(const std::string& message) const { fail_at(offset_, message); }
  [[noreturn]] void fail_at(size_t offset, const std::string& message) const;

  static bool is_word(char character);
  void skip_blanks();
  bool peek(char character);
  bool take(char character);
  bool take(std::string_view token);
  bool take_adjacent(char character);
  void expect(char character, const std::string& why);
  std::string word(const std::string& what);

  const Text& text_;
  const std::string& source_;
  size_t offset_ = 0;
};

}  // namespace opgen
