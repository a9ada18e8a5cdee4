#include "opgen/schema/scanner.h"

#include <fmt/format.h>

#include <cctype>

namespace opgen {

bool Scanner::is_word(char character) { return std::isalnum(static_cast<unsigned char>(character)) || character == '_'; }

void Scanner::fail_at(size_t offset, const std::string& message) const { throw Problem(text_.at(offset), "schema: " + message); }

void Scanner::skip_blanks() {
  while (offset_ < source_.size() && std::isspace(static_cast<unsigned char>(source_[offset_]))) ++offset_;
}

bool Scanner::peek(char character) {
  skip_blanks();
  return offset_ < source_.size() && source_[offset_] == character;
}

bool Scanner::take(char character) {
  if (!peek(character)) return false;
  ++offset_;
  return true;
}

bool Scanner::take(std::string_view token) {
  skip_blanks();
  if (source_.compare(offset_, token.size(), token) != 0) return false;
  offset_ += token.size();
  return true;
}

void Scanner::expect(char character, const std::string& why) {
  if (!take(character)) fail(fmt::format("expected '{}' {}", character, why));
}

std::string Scanner::word(const std::string& what) {
  skip_blanks();
  const size_t start = offset_;
  while (offset_ < source_.size() && is_word(source_[offset_])) ++offset_;
  if (offset_ == start) fail("expected " + what);
  return source_.substr(start, offset_ - start);
}

bool Scanner::take_adjacent(char character) {
  if (offset_ >= source_.size() || source_[offset_] != character) return false;
  ++offset_;
  return true;
}

}  // namespace opgen
