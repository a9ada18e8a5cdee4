#include "opgen/derive/algebra.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace opgen::algebra {

namespace {

constexpr double kExact = 9007199254740992;  // whole numbers up to it are doubles

}  // namespace

ExprPtr number(double value) {
  std::string text = fmt::format("{}", value);
  if (value == std::floor(value) && std::abs(value) < kExact) text = fmt::format("{}", static_cast<long long>(value));
  return make_expr(ExprKind::number, text, {});
}

ExprPtr name(const std::string& text) { return make_expr(ExprKind::name, text, {}); }
ExprPtr call(const std::string& function, std::vector<ExprPtr> args, const Position& at) {
  return make_expr(ExprKind::call, function, std::move(args), at);
}

bool is_number(const ExprPtr& expr) { return expr->is(ExprKind::number); }
double value_of(const ExprPtr& number) { return std::strtod(number->text.c_str(), nullptr); }
bool is_number(const ExprPtr& expr, double value) { return is_number(expr) && value_of(expr) == value; }

namespace {

bool is_neg(const ExprPtr& expr) { return expr->is(ExprKind::unary) && expr->text == "-"; }
ExprPtr binary(const char* symbol, const ExprPtr& a, const ExprPtr& b) { return make_expr(ExprKind::binary, symbol, {a, b}); }
bool is_binary(const ExprPtr& expr, std::string_view symbol) { return expr->is(ExprKind::binary) && expr->text == symbol; }

bool is_whole(const ExprPtr& number) { return number->text.find_first_of(".eE") == std::string::npos; }
/// A whole number that is no double stays as it is written.
bool is_beyond_double(const ExprPtr& number) { return is_whole(number) && std::abs(value_of(number)) >= kExact; }

/// The number that `a symbol b` is; null if they are none, or if it is not what the parts of it give with what else they are
/// multiplied with: whole numbers that would be rounded, what overflows (C++ has no literal for it) or vanishes.
ExprPtr fold(std::string_view symbol, const ExprPtr& a, const ExprPtr& b) {
  if (!is_number(a) || !is_number(b) || is_beyond_double(a) || is_beyond_double(b)) return nullptr;
  const double x = value_of(a), y = value_of(b);
  if (symbol == "/" && y == 0) return nullptr;
  const double result = symbol == "+" ? x + y : symbol == "-" ? x - y : symbol == "*" ? x * y : x / y;
  const bool zero = symbol == "*" ? x == 0 || y == 0 : symbol == "/" ? x == 0 : result == 0;
  if (!zero && !std::isnormal(result)) return nullptr;
  return symbol != "/" && is_whole(a) && is_whole(b) && std::abs(result) >= kExact ? nullptr : number(result);
}

ExprPtr normal(const ExprPtr& literal) { return is_beyond_double(literal) ? literal : number(value_of(literal)); }

ExprPtr negative(const ExprPtr& literal) {
  if (!is_beyond_double(literal)) return number(-value_of(literal));
  const bool minus = literal->text[0] == '-';
  return make_expr(ExprKind::number, minus ? literal->text.substr(1) : "-" + literal->text, {}, literal->at);
}

bool is_where(const ExprPtr& expr) { return expr->is_call("where"); }

/// Multiplying by 1 / value is dividing by value.
bool has_exact_reciprocal(double value) {
  int exponent = 0;
  return std::abs(std::frexp(value, &exponent)) == 0.5 && std::isnormal(1 / value);
}

}  // namespace

ExprPtr add(const ExprPtr& a, const ExprPtr& b) {
  if (ExprPtr folded = fold("+", a, b)) return folded;
  if (is_number(a, 0)) return b;
  if (is_number(b, 0)) return a;
  if (is_neg(b)) return sub(a, b->args[0]);
  if (is_neg(a)) return sub(b, a->args[0]);
  // Like terms: 2 x + x.
  const auto split = [](const ExprPtr& term) {
    const bool scaled = is_binary(term, "*") && is_number(term->args[0]);
    return std::pair(scaled ? term->args[0] : number(1), scaled ? term->args[1] : term);
  };
  const auto [a_factor, a_rest] = split(a);
  const auto [b_factor, b_rest] = split(b);
  if (equal(a_rest, b_rest)) {
    if (const ExprPtr factor = fold("+", a_factor, b_factor)) return mul(factor, a_rest);
  }
  return binary("+", a, b);
}

ExprPtr sub(const ExprPtr& a, const ExprPtr& b) {
  if (ExprPtr folded = fold("-", a, b)) return folded;
  if (is_number(a, 0)) return neg(b);
  if (is_number(b, 0)) return a;
  if (is_neg(b)) return add(a, b->args[0]);
  return binary("-", a, b);
}

ExprPtr mul(const ExprPtr& a, const ExprPtr& b) {
  if (ExprPtr folded = fold("*", a, b)) return folded;
  if (is_number(a, 0) || is_number(b, 0)) return number(0);
  if (is_number(a, 1)) return b;
  if (is_number(b, 1)) return a;
  if (is_number(a, -1)) return neg(b);
  if (is_number(b, -1)) return neg(a);
  if (is_neg(a)) return neg(mul(a->args[0], b));
  if (is_neg(b)) return neg(mul(a, b->args[0]));
  if (is_number(b) && !is_number(a)) return mul(b, a);  // numbers lead
  if (is_binary(b, "*")) {
    if (const ExprPtr factor = fold("*", a, b->args[0])) return mul(factor, b->args[1]);
  }
  if (!is_number(a) && is_binary(b, "*") && is_number(b->args[0])) return mul(b->args[0], mul(a, b->args[1]));
  if (is_binary(a, "*") && is_number(a->args[0])) return mul(a->args[0], mul(a->args[1], b));
  // A factor moves into a choice between numbers, and a choice between 0 and something stays one: no 0 * inf, no 0 / 0.
  if (is_where(b) && (is_number(b->args[1]) || is_number(b->args[2])))
    return where(b->args[0], mul(a, b->args[1]), mul(a, b->args[2]));
  if (is_where(a) && (is_number(a->args[1]) || is_number(a->args[2])))
    return where(a->args[0], mul(a->args[1], b), mul(a->args[2], b));
  if (is_binary(b, "/") && is_number(b->args[0], 1)) return div(a, b->args[1]);
  // A quotient of a number may overflow where the product does not; in this order no step does.
  if (!is_number(a) && is_binary(b, "/") && is_number(b->args[0]) && !is_number(b->args[1])) {
    const bool shrinks = std::abs(value_of(b->args[0])) < 1;
    return shrinks ? div(mul(b->args[0], a), b->args[1]) : mul(b->args[0], div(a, b->args[1]));
  }
  return binary("*", a, b);
}

ExprPtr div(const ExprPtr& a, const ExprPtr& b) {
  if (is_number(a, 0)) return number(0);
  if (is_number(b, 1)) return a;
  if (is_number(b, -1)) return neg(a);
  // A reciprocal that is not exact waits for what it divides. 1.0: in C++ formulas 1 / 3 would be 0.
  if (is_number(a, 1) && is_number(b) && !has_exact_reciprocal(value_of(b)))
    return binary("/", make_expr(ExprKind::number, "1.0", {}), b);
  if (const ExprPtr folded = fold("/", a, b)) return folded;
  if (is_neg(a)) return neg(div(a->args[0], b));
  if (is_neg(b)) return neg(div(a, b->args[0]));
  if (!is_number(a) && equal(a, b)) return number(1);  // of a slope, with its limits: inf / inf and 0 / 0 too
  if (is_number(b) && has_exact_reciprocal(value_of(b))) return mul(number(1 / value_of(b)), a);
  return binary("/", a, b);
}

ExprPtr neg(const ExprPtr& a) {
  if (is_number(a)) return negative(a);
  if (is_neg(a)) return a->args[0];
  if (is_binary(a, "-")) return binary("-", a->args[1], a->args[0]);
  if (is_binary(a, "*") && is_number(a->args[0])) return mul(negative(a->args[0]), a->args[1]);
  return make_expr(ExprKind::unary, "-", {a});
}

ExprPtr where(const ExprPtr& condition, const ExprPtr& yes, const ExprPtr& no) {
  if (equal(yes, no)) return yes;
  return make_expr(ExprKind::call, "where", {condition, yes, no});
}

ExprPtr simplify(const ExprPtr& expr) {
  std::vector<ExprPtr> args;
  for (const ExprPtr& argument : expr->args) args.push_back(simplify(argument));
  switch (expr->kind) {
    case ExprKind::number:
      return normal(expr);
    case ExprKind::unary:
      return expr->text == "-" ? neg(args[0]) : make_expr(ExprKind::unary, expr->text, args, expr->at);
    case ExprKind::conditional:
      return where(args[0], args[1], args[2]);
    case ExprKind::binary:
      if (expr->text == "+") return add(args[0], args[1]);
      if (expr->text == "-") return sub(args[0], args[1]);
      if (expr->text == "*") return mul(args[0], args[1]);
      if (expr->text == "/") return div(args[0], args[1]);
      break;
    case ExprKind::call:
      if (expr->text == "where" && args.size() == 3) return where(args[0], args[1], args[2]);
      break;
    default:
      break;
  }
  if (args.empty()) return expr;
  return std::make_shared<Expr>(expr->kind, expr->text, std::move(args), expr->keys, expr->at);
}

ExprPtr fold_numbers(const ExprPtr& expr) {
  std::vector<ExprPtr> args;
  for (const ExprPtr& argument : expr->args) args.push_back(fold_numbers(argument));
  if (expr->is(ExprKind::number)) return normal(expr);
  if (args.empty()) return expr;
  if (expr->is(ExprKind::unary) && expr->text == "-" && is_number(args[0])) return negative(args[0]);
  static const std::set<std::string> kFolded = {"+", "-", "*", "/"};
  if (expr->is(ExprKind::binary) && kFolded.count(expr->text)) {
    if (ExprPtr folded = fold(expr->text, args[0], args[1])) return folded;
  }
  if (expr->is(ExprKind::conditional)) return make_expr(ExprKind::call, "where", std::move(args), expr->at);
  return std::make_shared<Expr>(Expr{expr->kind, expr->text, std::move(args), expr->keys, expr->at});
}

ExprPtr substitute(const ExprPtr& expr, std::string_view from, const ExprPtr& to) {
  return rewrite(expr, [&](const ExprPtr& node) -> ExprPtr { return node->is_name(from) ? to : nullptr; });
}

}  // namespace opgen::algebra
