#include "tests/opgen/random/trees.h"

#include <fmt/format.h>

#include <stdexcept>

namespace deckle::random_entries {

using opgen::Expr;
using Kind = Expr::Kind;
using opgen::make_expr;

ExprPtr name(const std::string& text) { return make_expr(Kind::name, text, {}); }
ExprPtr number(double value) { return make_expr(Kind::number, fmt::format("{}", value), {}); }
ExprPtr unary(const std::string& symbol, ExprPtr operand) {
  // The parser reads -2 as a number, not as minus 2.
  if (symbol == "-" && operand->is(Kind::number) && operand->text[0] != '-')
    return make_expr(Kind::number, "-" + operand->text, {});
  if (symbol == "-" && operand->is(Kind::number)) return make_expr(Kind::number, operand->text.substr(1), {});
  if (symbol == "-" && operand->is(Kind::unary) && operand->text == "-") return operand->args[0];
  return make_expr(Kind::unary, symbol, {std::move(operand)});
}
ExprPtr binary(const std::string& symbol, ExprPtr left, ExprPtr right) {
  return make_expr(Kind::binary, symbol, {std::move(left), std::move(right)});
}
ExprPtr call(const std::string& function, std::vector<ExprPtr> args) {
  std::vector<std::string> keys(args.size());
  return std::make_shared<Expr>(Kind::call, function, std::move(args), std::move(keys), opgen::Position{});
}
ExprPtr index(const std::string& list, size_t position) {
  return make_expr(Kind::index, "", {name(list), number(static_cast<double>(position))});
}
ExprPtr conditional(ExprPtr condition, ExprPtr yes, ExprPtr no) {
  return make_expr(Kind::conditional, "?", {std::move(condition), std::move(yes), std::move(no)});
}

namespace {

ExprPtr with_parts(const ExprPtr& node, std::vector<ExprPtr> parts) {
  return std::make_shared<Expr>(node->kind, node->text, std::move(parts), node->keys, node->at);
}

/// Certainly: scalar functions are called with tensors, where formulas are those of ops.
bool is_tensor(const ExprPtr& tree, const ExprPtr& some_tensor) {
  if (tree->is(Kind::call) || opgen::equal(tree, some_tensor)) return true;
  if (tree->is(Kind::index) || tree->is(Kind::method)) return false;
  for (const ExprPtr& part : tree->args) {
    if (is_tensor(part, some_tensor)) return true;
  }
  return false;
}

ExprPtr times(const ExprPtr& a, const ExprPtr& b) {
  if (!a || !b) return nullptr;
  if (a->is(Kind::number) && a->text == "1") return b;
  if (b->is(Kind::number) && b->text == "1") return a;
  return binary("*", a, b);
}
ExprPtr plus(const ExprPtr& a, const ExprPtr& b) { return !a ? b : !b ? a : binary("+", a, b); }
ExprPtr minus(const ExprPtr& a) { return a ? unary("-", a) : nullptr; }

}  // namespace

ExprPtr replace(const ExprPtr& tree, const ExprPtr& leaf, const ExprPtr& by) {
  if (opgen::equal(tree, leaf)) return by;
  if (tree->args.empty()) return tree;
  std::vector<ExprPtr> parts;
  for (const ExprPtr& part : tree->args) parts.push_back(replace(part, leaf, by));
  return with_parts(tree, std::move(parts));
}

bool holds(const ExprPtr& tree, const ExprPtr& leaf) {
  if (opgen::equal(tree, leaf)) return true;
  for (const ExprPtr& part : tree->args) {
    if (holds(part, leaf)) return true;
  }
  return false;
}

ExprPtr inlined(const Entry& entry, const ExprPtr& body) {
  ExprPtr tree = body;
  for (auto let = entry.lets.rbegin(); let != entry.lets.rend(); ++let) tree = replace(tree, name(let->first), let->second);
  return tree;
}

ExprPtr slope(const ExprPtr& tree, const ExprPtr& leaf, const ExprPtr& some_tensor) {
  if (opgen::equal(tree, leaf)) return number(1);
  if (!holds(tree, leaf)) return nullptr;
  const auto part = [&](size_t i) { return tree->args[i]; };
  const auto inner = [&](size_t i) { return slope(tree->args[i], leaf, some_tensor); };
  const auto both = [&](const ExprPtr& condition, ExprPtr yes, ExprPtr no) {
    if (!yes && !no) return ExprPtr();
    if (!yes) yes = number(0);
    if (!no) no = number(0);
    if (!is_tensor(yes, some_tensor)) yes = plus(times(number(0), some_tensor), yes);
    return call("where", {condition, yes, no});
  };
  switch (tree->kind) {
    case Kind::unary:
      return minus(inner(0));
    case Kind::binary: {
      const std::string& symbol = tree->text;
      if (symbol == "+") return plus(inner(0), inner(1));
      if (symbol == "-") return plus(inner(0), minus(inner(1)));
      if (symbol == "*") return plus(times(inner(0), part(1)), times(part(0), inner(1)));
      const ExprPtr over = inner(0) ? binary("/", inner(0), part(1)) : nullptr;
      const ExprPtr under = inner(1) ? minus(times(inner(1), binary("/", part(0), binary("*", part(1), part(1))))) : nullptr;
      return plus(over, under);
    }
    case Kind::conditional: {
      const ExprPtr yes = inner(1), no = inner(2);
      if (!yes && !no) return nullptr;
      const ExprPtr zero = binary("*", number(0), some_tensor);
      const auto whole = [&](const ExprPtr& value) { return !value ? zero : plus(zero, value); };
      return conditional(part(0), whole(yes), whole(no));
    }
    case Kind::call: {
      const std::string& f = tree->text;
      if (f == "where") return both(part(0), inner(1), inner(2));
      if (f == "maximum") return both(binary(">", part(0), part(1)), inner(0), inner(1));
      if (f == "minimum") return both(binary("<", part(0), part(1)), inner(0), inner(1));
      if (f == "pow") {
        const ExprPtr base =
            inner(0) ? times(times(part(1), call("pow", {part(0), binary("-", part(1), number(1))})), inner(0)) : nullptr;
        return plus(base, inner(1) ? times(times(tree, call("log", {part(0)})), inner(1)) : nullptr);
      }
      const ExprPtr x = part(0);
      ExprPtr factor;
      if (f == "exp") factor = tree;
      if (f == "expm1") factor = call("exp", {x});
      if (f == "sin") factor = call("cos", {x});
      if (f == "cos") factor = minus(call("sin", {x}));
      if (f == "tanh") factor = binary("-", number(1), call("square", {tree}));
      if (f == "sigmoid") factor = times(tree, call("sigmoid", {minus(x)}));
      if (f == "softplus") factor = call("sigmoid", {x});
      if (f == "log_sigmoid") factor = call("sigmoid", {minus(x)});
      if (f == "erf") factor = times(number(1.1283791670955126), call("exp", {minus(call("square", {x}))}));
      if (f == "square") factor = times(number(2), x);
      if (f == "log") factor = call("reciprocal", {x});
      if (f == "log1p") factor = call("reciprocal", {binary("+", x, number(1))});
      if (f == "sqrt") factor = times(number(0.5), call("rsqrt", {x}));
      if (f == "rsqrt") factor = times(number(-0.5), binary("/", tree, x));
      if (f == "reciprocal") factor = minus(call("square", {tree}));
      if (f == "abs") factor = call("sign", {x});
      if (f == "sign" || f == "floor" || f == "ceil" || f == "round" || f == "trunc") return nullptr;
      if (factor) return times(factor, inner(0));
      break;
    }
    default:
      break;
  }
  throw std::runtime_error("no derivative is known of " + opgen::to_string(tree));
}

std::vector<ExprPtr> smaller(const ExprPtr& tree, const std::vector<ExprPtr>& leaves) {
  std::vector<ExprPtr> found;
  if (tree->args.empty() || tree->is(Kind::index)) return found;
  const bool condition = tree->is(Kind::binary) && std::string("<>=!&|").find(tree->text[0]) != std::string::npos;
  const bool list = tree->is(Kind::list) || tree->is(Kind::method);
  if (!condition && !list) {
    for (const ExprPtr& leaf : leaves) found.push_back(leaf);
    const bool choice = tree->is_call("where") || tree->is(Kind::conditional);
    for (size_t i = choice ? 1 : 0; i < tree->args.size(); ++i) {
      if (!tree->args[i]->is(Kind::list) && !tree->args[i]->is_name("true")) found.push_back(tree->args[i]);
    }
  }
  if (list) return found;
  for (size_t i = 0; i < tree->args.size(); ++i) {
    for (const ExprPtr& part : smaller(tree->args[i], leaves)) {
      std::vector<ExprPtr> parts = tree->args;
      parts[i] = part;
      found.push_back(with_parts(tree, std::move(parts)));
    }
  }
  return found;
}

}  // namespace deckle::random_entries
