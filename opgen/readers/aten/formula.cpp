#include "opgen/readers/aten/formula.h"

#include <fmt/format.h>

#include "opgen/formula/tokens.h"
#include "opgen/readers/aten/names.h"

namespace opgen::aten {
namespace {

constexpr Dialect kDialect = {"+-*/%<>!?:()[]{},.&|^~=;", "-> == != <= >= && || << ++ -- ::", true};

struct Level {
  std::string_view symbol;
  const char* call;  // the op that it is, where our formulas have no such operator
};

/// Binary operators from the weakest on, as C++ ranks them.
const std::vector<std::vector<Level>>& levels() {
  static const std::vector<std::vector<Level>> all = {
      {{"||", nullptr}},
      {{"&&", nullptr}},
      {{"|", "bitwise_or"}},
      {{"^", "bitwise_xor"}},
      {{"&", "bitwise_and"}},
      {{"==", nullptr}, {"!=", nullptr}},
      {{"<", nullptr}, {"<=", nullptr}, {">", nullptr}, {">=", nullptr}},
      {{"<<", "bitwise_left_shift"}},
      {{"+", nullptr}, {"-", nullptr}},
      {{"*", nullptr}, {"/", nullptr}, {"%", nullptr}},
  };
  return all;
}

class Parser : TokenReader {
 public:
  explicit Parser(const Text& text) : TokenReader(text, tokenize(text, kDialect)) {}

  ExprPtr formula() {
    ExprPtr value = expression();
    if (token().kind == Token::Kind::end) return value;
    if (peek(";")) fail("a formula is one expression, without ';'");
    if (peek("=") || peek("++") || peek("--")) fail("a formula assigns nothing");
    fail(fmt::format("unexpected '{}'", token().text));
  }

 private:
  ExprPtr expression() {
    const Depth depth(*this);
    ExprPtr condition = binary(0);
    const Position at = here();
    if (!take("?")) return condition;
    ExprPtr yes = expression();
    expect(":", "between the two values of '? :'");
    ExprPtr no = expression();
    return make_expr(ExprKind::conditional, "?", {condition, yes, no}, at);
  }

  ExprPtr binary(size_t level) {
    if (level == levels().size()) return unary();
    ExprPtr left = binary(level + 1);
    while (true) {
      const Level* found = nullptr;
      for (const Level& candidate : levels()[level]) {
        if (peek(candidate.symbol)) found = &candidate;
      }
      if (!found) return left;
      const Position at = here();
      ++next_;
      ExprPtr right = binary(level + 1);
      left = found->call ? make_expr(ExprKind::call, found->call, {left, right}, at)
                         : make_expr(ExprKind::binary, std::string(found->symbol), {left, right}, at);
    }
  }

  ExprPtr unary() {
    const Depth depth(*this);
    const Position at = here();
    if (take("+")) return unary();
    if (take("*")) return make_expr(ExprKind::method, "value", {unary()}, at);
    if (take("~")) return make_expr(ExprKind::call, "bitwise_not", {unary()}, at);
    if (!peek("-") && !peek("!")) return postfix();
    const std::string symbol = token().text;
    ++next_;
    ExprPtr operand = unary();
    if (symbol == "-" && operand->is(ExprKind::number) && operand->text[0] != '-')
      return make_expr(ExprKind::number, "-" + operand->text, {}, at);
    return make_expr(ExprKind::unary, symbol, {operand}, at);
  }

  ExprPtr postfix() {
    ExprPtr value = primary();
    while (true) {
      if (take(".") || take("->")) {
        const Position at = here();
        if (token().kind != Token::Kind::name) fail("expected a method name after '.' or '->'");
        std::string name = without_symint(token().text);
        if (name.rfind("sym_", 0) == 0) name.erase(0, 4);
        ++next_;
        if (peek("<")) template_arguments();
        if (!peek("(")) fail(fmt::format("expected '(' after '.{}': fields of structs cannot be read", name));
        std::vector<ExprPtr> args = {value};
        sequence(args, "(", ")");
        value = make_expr(ExprKind::method, name, std::move(args), at);
      } else if (peek("[")) {
        const Position at = here();
        ++next_;
        ExprPtr index = expression();
        expect("]", "to close the index");
        value = make_expr(ExprKind::index, "", {value, index}, at);
      } else {
        return value;
      }
    }
  }

  /// `open a, b close` behind what `args` holds already.
  void sequence(std::vector<ExprPtr>& args, std::string_view open, std::string_view close) {
    expect(open, "to begin a list");
    if (take(close)) return;
    do {
      args.push_back(expression());
    } while (take(","));
    expect(close, "or ',' after an argument");
  }

  /// `<int64_t, std::vector<Tensor>>`: the arguments that are separated by commas of this level.
  std::vector<std::string> template_arguments() {
    std::vector<std::string> arguments = {""};
    int depth = 0;
    do {
      const Token& word = token();
      const bool part = word.kind == Token::Kind::name || word.kind == Token::Kind::number || word.is("<") || word.is(">") ||
                        word.is(",") || word.is("&") || word.is("*");
      if (!part) fail("expected types, and '>' to close the template's arguments");
      ++next_;
      if (word.is("<") && depth++ == 0) continue;
      if (word.is(">") && --depth == 0) return arguments;
      if (word.is(",") && depth == 1)
        arguments.emplace_back();
      else
        arguments.back() += word.text;
    } while (true);
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
      case Token::Kind::name:
        ++next_;
        return make_name(one_word(without_namespaces(current.text)), at);
      case Token::Kind::symbol:
        if (take("(")) {
          ExprPtr value = expression();
          expect(")", "to close the parenthesis");
          return value;
        }
        if (peek("{")) return braces(at);
        if (peek("[")) return lambda(at);
        break;
      case Token::Kind::end:
        fail("expected a value");
    }
    fail(fmt::format("expected a value, found '{}'", current.text));
  }

  ExprPtr make_name(std::string name, const Position& at) {
    std::vector<std::string> types;
    if (peek("<") && is_template(name)) types = template_arguments();
    if (peek("(") || (peek("{") && (!types.empty() || is_holder(name)))) {
      std::vector<ExprPtr> args;
      const bool list = peek("{");
      sequence(args, list ? "{" : "(", list ? "}" : ")");
      return call_or_value(name, types, std::move(args), list, at);
    }
    const auto constant = cpp_constants().find(name);
    return make_expr(ExprKind::name, constant == cpp_constants().end() ? name : constant->second, {}, at);
  }

  /// A call, or a value of a type that is written like one.
  ExprPtr call_or_value(const std::string& name, const std::vector<std::string>& types, std::vector<ExprPtr> args, bool list,
                        const Position& at) {
    if (name == "get" && args.size() == 1 && types.size() == 1)
      return make_expr(ExprKind::index, "", {args[0], make_expr(ExprKind::number, types[0], {}, at)}, at);
    if (name == "static_cast" && args.size() == 1 && types.size() == 1)
      return make_expr(ExprKind::call, one_word(without_namespaces(types[0])), std::move(args), at);
    if (name == "make_tuple") return make_expr(ExprKind::tuple, "", std::move(args), at);
    if (name == "tuple") {
      while (args.size() < types.size()) args.push_back(make_expr(ExprKind::name, "none", {}, at));
      return make_expr(ExprKind::tuple, "", std::move(args), at);
    }
    if (name == "Tensor" && args.empty()) return make_expr(ExprKind::name, "none", {}, at);
    if (is_holder(name)) {
      if (list) return make_expr(ExprKind::list, "", std::move(args), at);
      if (args.size() == 1 && name == "vector") args.push_back(make_expr(ExprKind::name, "none", {}, at));
      if (args.size() == 1) return args[0];
      if (args.size() == 2) return make_expr(ExprKind::call, "repeated", std::move(args), at);
      if (args.empty() && name == "optional") return make_expr(ExprKind::name, "none", {}, at);
      if (args.empty()) return make_expr(ExprKind::list, "", {}, at);
    }
    return make_expr(ExprKind::call, without_symint(name), std::move(args), at);
  }

  /// `{a, b}`; `{{a, b}}`, an array in the braces of a struct, is the same.
  ExprPtr braces(const Position& at) {
    const Depth depth(*this);
    std::vector<ExprPtr> elements;
    sequence(elements, "{", "}");
    if (elements.size() == 1 && elements[0]->is(ExprKind::list)) return elements[0];
    return make_expr(ExprKind::list, "", std::move(elements), at);
  }

  /// `[capture](parameters) { body }`, skipped as balanced brackets.
  ExprPtr lambda(const Position& at) {
    std::string closing;
    while (true) {
      if (token().kind == Token::Kind::end) fail("a lambda is not closed");
      const std::string& word = token().text;
      const bool symbol = token().kind == Token::Kind::symbol;
      ++next_;
      if (!symbol) continue;
      if (word == "[" || word == "(" || word == "{") {
        closing += word == "[" ? ']' : word == "(" ? ')' : '}';
      } else if (!closing.empty() && word[0] == closing.back() && word.size() == 1) {
        closing.pop_back();
        if (closing.empty() && word == "}") return make_expr(ExprKind::call, kLambda, {}, at);
      } else if (word == "]" || word == ")" || word == "}") {
        --next_;
        fail(fmt::format("'{}' closes nothing in this lambda", word));
      }
    }
  }
};

}  // namespace

ExprPtr parse_cpp_formula(const Text& text) { return Parser(text).formula(); }

}  // namespace opgen::aten
