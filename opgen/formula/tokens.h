#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opgen/formula/expr.h"
#include "opgen/text/source.h"

namespace opgen {

/// A token of a formula.
struct Token {
  enum class Kind { end, number, string, name, symbol };
  Kind kind = Kind::end;
  std::string text;  // strings without quotes
  size_t offset = 0;

  bool is(std::string_view symbol) const { return kind == Kind::symbol && text == symbol; }
};

/// How a formula is split into tokens.
struct Dialect {
  std::string_view symbols;
  std::string_view pairs;  // symbols of two characters, with blanks between them
  bool cpp = false;        // qualified names, `std::get`, are one token; comments are skipped; numbers may have a suffix
};

/// The tokens of a formula, the last of kind `end`; throws Problem.
std::vector<Token> tokenize(const Text& text, const Dialect& dialect);

/// A position in the tokens of `text`: the base of parsers by recursive descent.
class TokenReader {
 protected:
  TokenReader(const Text& text, std::vector<Token> tokens) : text_(text), tokens_(std::move(tokens)) {}

  const Token& token() const { return tokens_[next_]; }
  Position here() const { return text_.at(token().offset); }
  [[noreturn]] void fail(const std::string& message) const {
    throw Problem(here(), token().kind == Token::Kind::end ? message + " (the formula ends here)" : message);
  }
  bool peek(std::string_view symbol) const { return token().is(symbol); }
  bool take(std::string_view symbol) {
    if (!peek(symbol)) return false;
    ++next_;
    return true;
  }
  void expect(std::string_view symbol, const std::string& why) {
    if (!take(symbol)) fail(fmt::format("expected '{}' {}", symbol, why));
  }

  /// Counts the calls of expression() and unary() that are open: the parser's own recursion.
  struct Depth {
    explicit Depth(TokenReader& reader) : open(reader.open_) {
      if (++open > 2 * Expr::kMaxDepth) reader.fail(fmt::format("the formula is nested more than {} deep", Expr::kMaxDepth));
    }
    ~Depth() { --open; }
    int& open;
  };

  const Text& text_;
  std::vector<Token> tokens_;
  size_t next_ = 0;

 private:
  int open_ = 0;
};

}  // namespace opgen
