#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>

#include "opgen/formula/tokens.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)); }
bool is_alpha(char character) { return std::isalpha(static_cast<unsigned char>(character)) || character == '_'; }

class Lexer {
 public:
  Lexer(const Text& text, const Dialect& dialect) : text_(text), source_(text.value()), dialect_(dialect) {}

  std::vector<Token> tokens() {
    while (true) {
      skip_blanks_and_comments();
      Token token;
      token.offset = at_;
      if (at_ < source_.size()) read(token);
      tokens_.push_back(std::move(token));
      if (tokens_.back().kind == Token::Kind::end) return std::move(tokens_);
    }
  }

 private:
  [[noreturn]] void fail_at(size_t offset, const std::string& message) const { throw Problem(text_.at(offset), message); }
  char character(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  bool starts(std::string_view with) const { return source_.compare(at_, with.size(), with) == 0; }
  /// What only C++ has.
  bool starts_cpp(std::string_view with) const { return dialect_.cpp && starts(with); }

  void skip_blanks_and_comments() {
    while (at_ < source_.size()) {
      if (std::isspace(static_cast<unsigned char>(source_[at_]))) {
        ++at_;
      } else if (starts_cpp("/*")) {
        const size_t close = source_.find("*/", at_ + 2);
        if (close == std::string::npos) fail_at(at_, "a comment is not closed");
        at_ = close + 2;
      } else if (starts_cpp("//")) {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else {
        return;
      }
    }
  }

  /// The character here, with all its bytes where UTF-8 has several.
  std::string whole_character() const {
    size_t end = at_ + 1;
    while (end < source_.size() && (static_cast<unsigned char>(source_[end]) & 0xc0u) == 0x80u) ++end;
    return source_.substr(at_, end - at_);
  }

  void read(Token& token) {
    const char first = source_[at_];
    if (is_digit(first) || (first == '.' && is_digit(character(at_ + 1)))) return number(token);
    if (is_alpha(first) || (starts_cpp("::") && is_alpha(character(at_ + 2)))) return name(token);
    if (first == '"' || first == '\'') return string(token);
    token.kind = Token::Kind::symbol;
    token.text = first;
    for (size_t pair = 0; pair < dialect_.pairs.size(); pair += 3) {
      if (starts(dialect_.pairs.substr(pair, 2))) token.text = dialect_.pairs.substr(pair, 2);
    }
    if (token.text.size() == 1 && dialect_.symbols.find(first) == std::string_view::npos)
      fail_at(at_, fmt::format("unexpected character '{}'{}", whole_character(), first == '^' ? ": a power is pow(a, b)" : ""));
    at_ += token.text.size();
  }

  void number(Token& token) {
    token.kind = Token::Kind::number;
    const size_t start = at_;
    const auto digits = [&] {
      while (is_digit(character(at_))) ++at_;
    };
    digits();
    if (character(at_) == '.') {
      ++at_;
      digits();
    }
    if (character(at_) == 'e' || character(at_) == 'E') {
      size_t exponent = at_ + 1;
      if (character(exponent) == '+' || character(exponent) == '-') ++exponent;
      if (is_digit(character(exponent))) {
        at_ = exponent;
        digits();
      }
    }
    token.text = source_.substr(start, at_ - start);
    while (dialect_.cpp && std::string_view("fFlLuU").find(character(at_)) < 6) ++at_;
    if (is_alpha(character(at_)) || is_digit(character(at_)))
      fail_at(start, fmt::format("'{}' is not a number", source_.substr(start, at_ + 1 - start)));
    if (is_octal(token.text)) fail_at(start, fmt::format("{} is octal in C++: leave the leading 0 out", token.text));
    const bool whole = !dialect_.cpp && token.text.find_first_of(".eE") == std::string::npos;
    if (whole ? !whole_number(token.text) : !std::isfinite(std::strtod(token.text.c_str(), nullptr)))
      fail_at(start, fmt::format("the number {} is too large", token.text));
  }

  void name(Token& token) {
    token.kind = Token::Kind::name;
    const size_t start = at_;
    if (starts_cpp("::")) at_ += 2;
    while (true) {
      while (is_alpha(character(at_)) || is_digit(character(at_))) ++at_;
      if (!starts_cpp("::") || !is_alpha(character(at_ + 2))) break;
      at_ += 2;
    }
    token.text = source_.substr(start, at_ - start);
  }

  void string(Token& token) {
    token.kind = Token::Kind::string;
    const size_t start = at_;
    const char quote = source_[at_++];
    while (at_ >= source_.size() || source_[at_] != quote) {
      if (starts_cpp("\\")) ++at_;
      if (at_ >= source_.size()) fail_at(start, "a string is not closed");
      token.text += source_[at_++];
    }
    ++at_;
  }

  const Text& text_;
  const std::string& source_;
  const Dialect& dialect_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokenize(const Text& text, const Dialect& dialect) { return Lexer(text, dialect).tokens(); }

}  // namespace opgen
