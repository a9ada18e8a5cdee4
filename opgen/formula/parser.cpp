#include <fmt/format.h>

#include "opgen/formula/expr.h"
#include "opgen/formula/tokens.h"
#include "opgen/schema/identifiers.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

constexpr Dialect kDialect = {"+-*/%<>!?:()[],.=", "== != <= >= && ||"};

class Parser : TokenReader {
 public:
  explicit Parser(const Text& text) : TokenReader(text, tokenize(text, kDialect)) {}

  Formula formula() {
    Formula formula;
    if (peek_name("let")) {
      ++next_;
      do {
        const Token& name = token();
        if (name.kind != Token::Kind::name) fail("expected a name after 'let'");
        if (const std::string why = why_not_a_name(name.text); !why.empty()) fail(why);
        for (const auto& [earlier, ignored] : formula.lets) {
          if (earlier == name.text) fail(fmt::format("'let' defines '{}' twice", name.text));
        }
        ++next_;
        expect("=", fmt::format("after 'let {}'", name.text));
        formula.lets.emplace_back(name.text, expression());
      } while (take(","));
      if (!peek_name("in")) fail("expected 'in' after the definitions of 'let'");
      ++next_;
    }
    formula.body = expression();
    if (token().kind != Token::Kind::end) fail(fmt::format("unexpected '{}'", token().text));
    return formula;
  }

 private:
  bool peek_name(std::string_view name) const { return token().kind == Token::Kind::name && token().text == name; }

  ExprPtr expression() {
    const Depth depth(*this);
    ExprPtr condition = binary(0);
    if (!peek("?")) return condition;
    const Position at = here();
    ++next_;
    ExprPtr yes = expression();
    expect(":", "between the two values of '? :'");
    ExprPtr no = expression();
    return make_expr(ExprKind::conditional, "?", {condition, yes, no}, at);
  }

  ExprPtr binary(int level) {
    static const std::vector<std::vector<std::string>> kLevels = {
        {"||"}, {"&&"}, {"==", "!=", "<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}};
    if (level == static_cast<int>(kLevels.size())) return unary();
    ExprPtr left = binary(level + 1);
    while (true) {
      std::string found;
      for (const std::string& candidate : kLevels[level]) {
        if (peek(candidate)) found = candidate;
      }
      if (found.empty()) return left;
      const Position at = here();
      ++next_;
      ExprPtr right = binary(level + 1);
      left = make_expr(ExprKind::binary, found, {left, right}, at);
      if (level == 2) {
        for (const std::string& candidate : kLevels[level]) {
          if (peek(candidate)) fail("comparisons do not chain; join them with '&&'");
        }
      }
    }
  }

  ExprPtr unary() {
    const Depth depth(*this);
    if (peek("-") || peek("!")) {
      const Position at = here();
      const std::string symbol = token().text;
      ++next_;
      ExprPtr operand = unary();
      if (symbol == "-" && operand->is(ExprKind::number) && operand->text[0] != '-')
        return make_expr(ExprKind::number, "-" + operand->text, {}, at);
      return make_expr(ExprKind::unary, symbol, {operand}, at);
    }
    return postfix();
  }

  ExprPtr postfix() {
    ExprPtr value = primary();
    while (true) {
      const Position at = here();
      if (take(".")) {
        const Position name_at = here();
        if (token().kind != Token::Kind::name) fail("expected a method name after '.'");
        const std::string name = token().text;
        ++next_;
        if (!peek("(")) {
          value = make_expr(ExprKind::member, name, {value}, name_at);
          continue;
        }
        std::vector<ExprPtr> args = {value};
        std::vector<std::string> keys = {""};
        arguments(args, keys);
        value = std::make_shared<Expr>(ExprKind::method, name, std::move(args), std::move(keys), name_at);
      } else if (take("[")) {
        ExprPtr index = expression();
        expect("]", "to close the index");
        value = make_expr(ExprKind::index, "", {value, index}, at);
      } else {
        return value;
      }
    }
  }

  void arguments(std::vector<ExprPtr>& args, std::vector<std::string>& keys) {
    ++next_;  // the parenthesis that made this a call
    if (take(")")) return;
    bool named = false;
    do {
      std::string key;
      if (token().kind == Token::Kind::name && tokens_[next_ + 1].is("=")) {
        key = token().text;
        next_ += 2;
        named = true;
      } else if (named) {
        fail("an argument without a name may not follow one with a name");
      }
      args.push_back(expression());
      keys.push_back(key);
    } while (take(","));
    expect(")", "or ',' after an argument");
  }

  ExprPtr primary() {
    const Position at = here();
    const Token current = token();
    switch (current.kind) {
      case Token::Kind::number:
        ++next_;
        return make_expr(ExprKind::number, current.text, {}, at);
      case Token::Kind::string:
        ++next_;
        return make_expr(ExprKind::string, current.text, {}, at);
      case Token::Kind::name: {
        // As a name it would be read as a binding where it is printed first.
        if (current.text == "let" || current.text == "in")
          fail(fmt::format("'{}' is a word of formulas, 'let a = b in c', and names nothing", current.text));
        ++next_;
        if (!peek("(")) return make_expr(ExprKind::name, current.text, {}, at);
        std::vector<ExprPtr> args;
        std::vector<std::string> keys;
        arguments(args, keys);
        return std::make_shared<Expr>(ExprKind::call, current.text, std::move(args), std::move(keys), at);
      }
      case Token::Kind::symbol:
        if (take("(")) {
          ExprPtr first = expression();
          if (take(")")) return first;
          std::vector<ExprPtr> elements = {first};
          while (take(",")) elements.push_back(expression());
          expect(")", "to close the tuple");
          return make_expr(ExprKind::tuple, "", elements, at);
        }
        if (take("[")) {
          std::vector<ExprPtr> elements;
          if (take("]")) return make_expr(ExprKind::list, "", elements, at);
          do {
            elements.push_back(expression());
          } while (take(","));
          expect("]", "to close the list");
          return make_expr(ExprKind::list, "", elements, at);
        }
        fail(fmt::format("expected a value, found '{}'{}", current.text, current.text == "*" ? ": a power is pow(a, b)" : ""));
      case Token::Kind::end:
        fail("expected a value");
    }
    fail("expected a value");
  }
};

}  // namespace

Formula parse_formula(const Text& text) { return Parser(text).formula(); }

}  // namespace opgen
