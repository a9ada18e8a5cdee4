#include "opgen/readers/aten/lexer.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <string_view>

namespace opgen::aten {
namespace {

bool is_digit(char character) { return std::isdigit(static_cast<unsigned char>(character)); }
bool is_alpha(char character) { return std::isalpha(static_cast<unsigned char>(character)) || character == '_'; }

constexpr std::array<std::string_view, 11> kTwo = {"->", "==", "!=", "<=", ">=", "&&", "||", "<<", "++", "--", "::"};
constexpr std::string_view kOne = "+-*/%<>!?:()[]{},.&|^~=;";

class Lexer {
 public:
  explicit Lexer(const Text& text) : text_(text), source_(text.value()) {}

  std::vector<Token> tokens() {
    while (true) {
      skip_blanks_and_comments();
      Token token;
      token.offset = at_;
      if (at_ < source_.size()) word(token);
      tokens_.push_back(std::move(token));
      if (tokens_.back().kind == Token::Kind::end) return std::move(tokens_);
    }
  }

 private:
  [[noreturn]] void fail_at(size_t offset, const std::string& message) const { throw Problem(text_.at(offset), message); }
  char character(size_t at) const { return at < source_.size() ? source_[at] : '\0'; }
  bool starts(std::string_view with) const { return source_.compare(at_, with.size(), with) == 0; }

  void skip_blanks_and_comments() {
    while (at_ < source_.size()) {
      if (std::isspace(static_cast<unsigned char>(source_[at_]))) {
        ++at_;
      } else if (starts("/*")) {
        const size_t close = source_.find("*/", at_ + 2);
        if (close == std::string::npos) fail_at(at_, "a comment is not closed");
        at_ = close + 2;
      } else if (starts("//")) {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else {
        return;
      }
    }
  }

  void word(Token& token) {
    const char first = source_[at_];
    if (is_digit(first) || (first == '.' && is_digit(character(at_ + 1)))) return number(token);
    if (is_alpha(first) || (starts("::") && is_alpha(character(at_ + 2)))) return name(token);
    if (first == '"' || first == '\'') return string(token);
    token.kind = Token::Kind::symbol;
    token.text = first;
    for (const std::string_view two : kTwo) {
      if (starts(two)) token.text = two;
    }
    if (token.text.size() == 1 && kOne.find(first) == std::string_view::npos)
      fail_at(at_, fmt::format("unexpected character '{}'", first));
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
    while (std::string_view("fFlLuU").find(character(at_)) < 6) ++at_;
    if (is_alpha(character(at_)) || is_digit(character(at_)))
      fail_at(start, fmt::format("'{}' is not a number", source_.substr(start, at_ + 1 - start)));
  }

  void name(Token& token) {
    token.kind = Token::Kind::name;
    const size_t start = at_;
    if (starts("::")) at_ += 2;
    while (true) {
      while (is_alpha(character(at_)) || is_digit(character(at_))) ++at_;
      if (!starts("::") || !is_alpha(character(at_ + 2))) break;
      at_ += 2;
    }
    token.text = source_.substr(start, at_ - start);
  }

  void string(Token& token) {
    token.kind = Token::Kind::string;
    const size_t start = at_;
    const char quote = source_[at_++];
    while (character(at_) != quote) {
      if (character(at_) == '\\') ++at_;
      if (at_ >= source_.size()) fail_at(start, "a string is not closed");
      token.text += source_[at_++];
    }
    ++at_;
  }

  const Text& text_;
  const std::string& source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokenize(const Text& text) { return Lexer(text).tokens(); }

}  // namespace opgen::aten
