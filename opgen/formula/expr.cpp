#include "opgen/formula/expr.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/text/strings.h"

namespace opgen {

Expr::Expr(ExprKind kind, std::string text, std::vector<ExprPtr> args, std::vector<std::string> keys, const Position& at)
    : kind(kind), text(std::move(text)), args(std::move(args)), keys(std::move(keys)), at(at) {
  for (const ExprPtr& argument : this->args) {
    if (this->at.line == 0) this->at = argument->at;
    depth = std::max(depth, argument->depth + 1);
    parts += argument->parts;
  }
  if (depth > kMaxDepth) throw TooLarge(this->at, fmt::format("the formula is nested more than {} deep", kMaxDepth));
  if (parts > kMaxParts)
    throw TooLarge(this->at,
                   fmt::format("the formula, or a derivative of it, has more than {} parts once every 'let' stands in its place",
                               kMaxParts));
}

ExprPtr make_expr(ExprKind kind, std::string text, std::vector<ExprPtr> args, const Position& at) {
  std::vector<std::string> keys(args.size());
  return std::make_shared<Expr>(kind, std::move(text), std::move(args), std::move(keys), at);
}

int precedence(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::conditional:
      return 0;
    case ExprKind::binary:
      if (expr.text == "||") return 1;
      if (expr.text == "&&") return 2;
      if (expr.text == "+" || expr.text == "-") return 4;
      if (expr.text == "*" || expr.text == "/" || expr.text == "%") return 5;
      return 3;
    case ExprKind::unary:
      return 6;
    case ExprKind::number:
      return expr.text[0] == '-' ? 6 : 8;
    default:
      return 8;
  }
}

namespace {

std::string in_parentheses(const ExprPtr& expr, int at_least) {
  const std::string text = to_string(expr);
  return precedence(*expr) < at_least ? "(" + text + ")" : text;
}

std::string arguments_text(const Expr& expr, size_t first) {
  std::vector<std::string> parts;
  for (size_t i = first; i < expr.args.size(); ++i)
    parts.push_back((expr.keys[i].empty() ? "" : expr.keys[i] + "=") + to_string(expr.args[i]));
  return join(parts);
}

/// What a method or member belongs to: "2.neg()" would be a bad number.
std::string owner(const ExprPtr& expr) { return in_parentheses(expr, expr->is(ExprKind::number) ? 9 : 7); }

}  // namespace

std::string to_string(const ExprPtr& expr) {
  switch (expr->kind) {
    case ExprKind::number:
    case ExprKind::name:
      return expr->text;
    case ExprKind::string:
      return expr->text.find('\'') == std::string::npos ? "'" + expr->text + "'" : '"' + expr->text + '"';
    case ExprKind::call:
      return expr->text + "(" + arguments_text(*expr, 0) + ")";
    case ExprKind::method:
      return owner(expr->args[0]) + "." + expr->text + "(" + arguments_text(*expr, 1) + ")";
    case ExprKind::member:
      return owner(expr->args[0]) + "." + expr->text;
    case ExprKind::unary:
      return expr->text + in_parentheses(expr->args[0], 6);
    case ExprKind::binary: {
      const int strength = precedence(*expr);
      const bool comparison = strength == 3;  // these do not chain
      return in_parentheses(expr->args[0], comparison ? 4 : strength) + " " + expr->text + " " +
             in_parentheses(expr->args[1], strength + 1);
    }
    case ExprKind::conditional:
      return in_parentheses(expr->args[0], 1) + " ? " + to_string(expr->args[1]) + " : " + to_string(expr->args[2]);
    case ExprKind::tuple:
      return "(" + arguments_text(*expr, 0) + ")";
    case ExprKind::list:
      return "[" + arguments_text(*expr, 0) + "]";
    case ExprKind::index:
      return in_parentheses(expr->args[0], 7) + "[" + to_string(expr->args[1]) + "]";
  }
  return "";
}

bool equal(const ExprPtr& a, const ExprPtr& b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->text != b->text || a->args.size() != b->args.size() || a->keys != b->keys) return false;
  for (size_t i = 0; i < a->args.size(); ++i) {
    if (!equal(a->args[i], b->args[i])) return false;
  }
  return true;
}

ExprPtr rewrite(const ExprPtr& expr, const std::function<ExprPtr(const ExprPtr&)>& replace) {
  if (ExprPtr replacement = replace(expr)) return replacement;
  if (expr->args.empty()) return expr;
  std::vector<ExprPtr> args;
  bool changed = false;
  for (const ExprPtr& argument : expr->args) {
    args.push_back(rewrite(argument, replace));
    changed = changed || args.back() != argument;
  }
  if (!changed) return expr;
  return std::make_shared<Expr>(expr->kind, expr->text, std::move(args), expr->keys, expr->at);
}

ExprPtr inline_lets(const Formula& formula) {
  std::vector<std::pair<std::string, ExprPtr>> known;
  const auto substitute = [&](const ExprPtr& expr) {
    return rewrite(expr, [&](const ExprPtr& node) -> ExprPtr {
      if (!node->is(ExprKind::name)) return nullptr;
      for (auto it = known.rbegin(); it != known.rend(); ++it) {
        if (it->first == node->text) return it->second;
      }
      return nullptr;
    });
  };
  for (const auto& [name, value] : formula.lets) known.emplace_back(name, substitute(value));
  return substitute(formula.body);
}

std::vector<std::string> names_in(const ExprPtr& expr) {
  std::vector<std::string> names;
  const std::function<void(const ExprPtr&)> visit = [&](const ExprPtr& node) {
    if (node->is(ExprKind::name) && std::find(names.begin(), names.end(), node->text) == names.end()) names.push_back(node->text);
    for (const ExprPtr& argument : node->args) visit(argument);
  };
  visit(expr);
  return names;
}

bool mentions(const ExprPtr& expr, std::string_view name) {
  if (expr->is_name(name)) return true;
  return std::any_of(expr->args.begin(), expr->args.end(), [&](const ExprPtr& argument) { return mentions(argument, name); });
}

}  // namespace opgen
