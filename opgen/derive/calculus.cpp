#include "opgen/derive/calculus.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "opgen/derive/algebra.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

bool is_constant_name(const std::string& text) { return text == "pi" || text == "inf" || text == "nan"; }

const std::set<std::string> kComparisons = {"==", "!=", "<", "<=", ">", ">="};
const std::set<std::string> kLogic = {"&&", "||"};

}  // namespace

ExprPtr instantiate(const ExprPtr& pattern, const ScalarFunction& function, const std::vector<ExprPtr>& args,
                    const ExprPtr& result) {
  return algebra::simplify(rewrite(pattern, [&](const ExprPtr& node) -> ExprPtr {
    if (!node->is(ExprKind::name)) return nullptr;
    if (node->text == "result") return result;
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      if (node->text == function.parameters[i]) return args[i];
    }
    return nullptr;
  }));
}

ExprPtr meaning_of(const ExprPtr& call, const Functions& functions) {
  const auto found = call->is(ExprKind::call) ? functions.find(call->text) : functions.end();
  if (found == functions.end() || !found->second.means) return nullptr;
  return instantiate(found->second.means, found->second, call->args, call);
}

bool only_condition(const ExprPtr& expr, const std::string& input) {
  bool compared = false;
  const ExprPtr rest = rewrite(expr, [&](const ExprPtr& node) -> ExprPtr {
    const bool condition = node->is(ExprKind::binary) && node->text == "!=" && node->args[0]->is_name(input) &&
                           node->args[1]->is(ExprKind::number) && node->args[1]->text == "0";
    compared = compared || condition;
    return condition ? make_expr(ExprKind::number, "0", {}, node->at) : nullptr;
  });
  return compared && !mentions(rest, input);
}

bool is_boolean(const ExprPtr& expr, const Functions& functions) {
  switch (expr->kind) {
    case ExprKind::binary:
      return kComparisons.count(expr->text) > 0 || kLogic.count(expr->text) > 0;
    case ExprKind::unary:
      return expr->text == "!";
    case ExprKind::call: {
      if (expr->text == "where") return is_boolean(expr->args[1], functions);
      const auto found = functions.find(expr->text);
      return found != functions.end() && found->second.boolean;
    }
    case ExprKind::conditional:
      return is_boolean(expr->args[1], functions);
    default:
      return false;
  }
}

void check_pointwise(const ExprPtr& expr, const std::vector<std::string>& names, const Library& library) {
  const auto want = [&](const ExprPtr& operand, bool boolean) {
    if (is_boolean(operand, library.functions) != boolean)
      throw Problem(operand->at, boolean ? fmt::format("'{}' is a number where a condition is wanted: compare it, e.g. '{} != 0'",
                                                       to_string(operand), to_string(operand))
                                         : fmt::format("'{}' is a condition where a number is wanted: write where({}, 1, 0)",
                                                       to_string(operand), to_string(operand)));
  };
  for (const ExprPtr& argument : expr->args) check_pointwise(argument, names, library);
  switch (expr->kind) {
    case ExprKind::number:
      return;
    case ExprKind::name:
      if (std::find(names.begin(), names.end(), expr->text) == names.end() && !is_constant_name(expr->text))
        throw Problem(expr->at, fmt::format("no argument is named '{}'{}", expr->text, did_you_mean(expr->text, names)));
      return;
    case ExprKind::unary:
      want(expr->args[0], expr->text == "!");
      return;
    case ExprKind::binary:
      if (expr->text == "%")
        throw Problem(expr->at, "'%' does not exist in pointwise expressions: what a division leaves is remainder(a, b)");
      if (expr->text == "==" || expr->text == "!=") {  // two conditions may be compared
        want(expr->args[1], is_boolean(expr->args[0], library.functions));
        return;
      }
      for (const ExprPtr& operand : expr->args) want(operand, kLogic.count(expr->text) > 0);
      return;
    case ExprKind::conditional:
    case ExprKind::call: {
      if (expr->is(ExprKind::conditional) || expr->text == "where") {
        if (expr->args.size() != 3) throw Problem(expr->at, "where wants (condition, value, other value)");
        want(expr->args[0], true);
        want(expr->args[2], is_boolean(expr->args[1], library.functions));
        return;
      }
      const auto found = library.functions.find(expr->text);
      if (found == library.functions.end()) {
        std::vector<std::string> known = {"where"};
        for (const auto& [name, function] : library.functions) known.push_back(name);
        const std::string hint = library.has(expr->text) ? fmt::format(" ('{}' is an op on whole tensors)", expr->text)
                                                         : did_you_mean(expr->text, known);
        throw Problem(expr->at, fmt::format("no scalar function is named '{}'{}", expr->text, hint));
      }
      if (found->second.parameters.size() != expr->args.size())
        throw Problem(expr->at, fmt::format("{} takes {} argument(s), not {}", expr->text, found->second.parameters.size(),
                                            expr->args.size()));
      for (size_t i = 0; i < expr->args.size(); ++i) {
        want(expr->args[i], false);
        if (!expr->keys[i].empty()) throw Problem(expr->args[i]->at, "pointwise expressions have no named arguments");
      }
      return;
    }
    default:
      throw Problem(
          expr->at,
          fmt::format("'{}' has no place in a pointwise expression, which is made of operators, where and scalar functions",
                      to_string(expr)));
  }
}

ExprPtr differentiate(const ExprPtr& expr, const std::string& variable, const Library& library) {
  using namespace algebra;
  const auto d = [&](size_t i) { return differentiate(expr->args[i], variable, library); };
  if (!mentions(expr, variable)) return number(0);
  switch (expr->kind) {
    case ExprKind::name:
      return number(1);
    case ExprKind::unary:
      return expr->text == "-" ? neg(d(0)) : number(0);
    case ExprKind::binary: {
      const ExprPtr &a = expr->args[0], &b = expr->args[1];
      if (expr->text == "+") return add(d(0), d(1));
      if (expr->text == "-") return sub(d(0), d(1));
      if (expr->text == "*") return equal(a, b) ? mul(number(2), mul(d(0), a)) : add(mul(d(0), b), mul(a, d(1)));
      if (expr->text == "/") return sub(div(d(0), b), mul(div(div(a, b), b), d(1)));  // b * b may underflow
      return number(0);
    }
    case ExprKind::conditional:
      return where(expr->args[0], d(1), d(2));
    case ExprKind::call: {
      if (expr->text == "where") return where(expr->args[0], d(1), d(2));
      const auto found = library.functions.find(expr->text);
      if (found == library.functions.end()) throw Problem(expr->at, fmt::format("'{}' has no derivative", expr->text));
      ExprPtr total = number(0);
      for (size_t i = 0; i < expr->args.size(); ++i) {
        const ExprPtr inner = d(i);
        if (is_number(inner, 0)) continue;
        if (found->second.boolean) continue;
        if (!found->second.derivatives[i])
          throw Problem(expr->at, fmt::format("the scalar function '{}' has no derivative for '{}' in functions.yaml", expr->text,
                                              found->second.parameters[i]));
        ExprPtr slope = instantiate(found->second.derivatives[i], found->second, expr->args, expr);
        // Of pow(x, 3) nothing but 3 pow(x, 2) is to be left.
        if (slope->is(ExprKind::call) && slope->args.size() > 1 && is_number(slope->args[1])) {
          if (const ExprPtr meaning = meaning_of(slope, library.functions)) slope = meaning;
        }
        total = add(total, mul(inner, slope));
      }
      return total;
    }
    default:
      return number(0);
  }
}

int cost_of(const ExprPtr& expr) {
  std::set<std::string> seen;
  int cost = 0;
  const std::function<void(const ExprPtr&)> visit = [&](const ExprPtr& node) {
    if (node->args.empty() || !seen.insert(to_string(node)).second) return;
    for (const ExprPtr& argument : node->args) visit(argument);
    if (node->is(ExprKind::call) && node->text != "where")
      cost += 10;
    else if (node->is(ExprKind::binary) && node->text == "/")
      cost += 4;
    else
      cost += 1;
  };
  visit(expr);
  return cost;
}

int operations_in(const ExprPtr& expr) {
  int count = expr->args.empty() ? 0 : 1;
  for (const ExprPtr& argument : expr->args) count += operations_in(argument);
  return count;
}

}  // namespace opgen
