#include "opgen/analyze/claims.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/analyze/uses.h"

namespace opgen {
namespace {

/// How an expression depends on some names, as far as its structure shows.
enum class Degree { zero, constant, linear, other };

Degree degree_of(const ExprPtr& expr, const std::vector<std::string>& names) {
  const auto of = [&](size_t i) { return degree_of(expr->args[i], names); };
  const auto sum = [](Degree a, Degree b) {
    if (a == Degree::zero || a == b) return b;
    return b == Degree::zero ? a : Degree::other;
  };
  switch (expr->kind) {
    case Expr::Kind::number:
      return expr->text.find_first_not_of("0.") == std::string::npos ? Degree::zero : Degree::constant;
    case Expr::Kind::name:
      return std::find(names.begin(), names.end(), expr->text) != names.end() ? Degree::linear : Degree::constant;
    case Expr::Kind::unary:
      return of(0);
    case Expr::Kind::binary:
      if (expr->text == "+" || expr->text == "-") return sum(of(0), of(1));
      if (expr->text == "*" && of(0) <= Degree::constant) return std::max(of(0), of(1));
      if ((expr->text == "*" || expr->text == "/") && of(1) <= Degree::constant) return std::max(of(0), of(1));
      break;
    default:
      if (expr->args.size() == 3 && (expr->is_call("where") || expr->is(Expr::Kind::conditional)) && of(0) <= Degree::constant)
        return sum(of(1), of(2));
      break;
  }
  const bool plain = std::none_of(names.begin(), names.end(), [&](const std::string& name) { return mentions(expr, name); });
  return plain ? Degree::constant : Degree::other;
}

/// The value, of an input that has a derivative or of a result, on which a formula depends; "" if there is none.
std::string value_read(const Op& op, const Block& formula) {
  for (const auto& [symbol, use] : uses_of(formula)) {
    const auto [what, index] = symbol;
    if (use.whole == 0 && use.elements == 0) continue;
    if (what == Symbol::What::result) return op.result_name(index);
    if (what == Symbol::What::argument && op.schema.arguments[index].type.is_tensor_like() && !op.is_constant(index))
      return op.schema.arguments[index].name;
  }
  return "";
}

void check_linear(const Op& op) {
  std::vector<std::string> inputs;
  for (const size_t input : op.differentiable()) inputs.push_back(op.schema.arguments[input].name);
  if (op.pointwise && degree_of(op.pointwise, inputs) > Degree::linear)
    throw Problem(op.forward[0].at, fmt::format("'{}' is said to be linear, but {} is not: write the formula of its tangent",
                                                op.name(), to_string(op.pointwise)));
  for (const Rule& rule : op.reverse) {
    const std::string read = value_read(op, rule.formula);
    if (read.empty()) continue;
    throw Problem(op.forward[0].at,
                  fmt::format("'{}' is said to be linear, but the gradient of '{}' depends on the values of '{}': write the "
                              "formula of its tangent",
                              op.name(), op.schema.arguments[rule.of[0]].name, read));
  }
}

/// An op in the term, or in what it calls, that does not act element by element; null if there is none.
const Op* whole_op(const Block& formula) {
  const Op* found = nullptr;
  visit(formula, [&](const Term& part) {
    if (found || !part.is(Term::Kind::op) || part.op->body == Op::Body::pointwise || part.op->element_wise) return;
    const bool composite = part.op->body == Op::Body::composite && whole_op(part.op->composite) == nullptr;
    if (!composite) found = part.op;
  });
  return found;
}

void check_element_wise(const Op& op) {
  for (const Rule& rule : op.reverse) {
    const Op* const callee = whole_op(rule.formula);
    if (callee == nullptr) continue;
    throw Problem(op.forward[0].at,
                  fmt::format("'{}' is said to act element by element, but the gradient of '{}' calls '{}', which does not: "
                              "write the formula of its tangent",
                              op.name(), op.schema.arguments[rule.of[0]].name, callee->name()));
  }
}

}  // namespace

void check_claims(const Program& program, Problems& problems) {
  for (const auto& op : program.ops) {
    if (op->external || op->forward.empty()) continue;
    try {
      if (op->linear) check_linear(*op);
      if (op->element_wise) check_element_wise(*op);
    } catch (const Problem& problem) {
      problems.emplace_back(problem.what());
    }
  }
}

}  // namespace opgen
