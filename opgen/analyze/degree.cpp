#include "opgen/analyze/degree.h"

#include <algorithm>
#include <vector>

namespace opgen {

Degree sum_of(Degree a, Degree b) {
  if (a == Degree::zero || a == b) return b;
  return b == Degree::zero ? a : Degree::other;
}

Degree product_of(Degree a, Degree b) {
  if (a == Degree::zero || b == Degree::zero) return Degree::zero;
  return a == Degree::constant || b == Degree::constant ? std::max(a, b) : Degree::other;
}

Degree quotient_of(Degree a, Degree b) { return b <= Degree::constant ? a : Degree::other; }

Degree degree_of(const ExprPtr& expr, const std::function<Degree(const std::string&)>& of_name) {
  if (expr->is(ExprKind::number))
    return expr->text.find_first_not_of("0.") == std::string::npos ? Degree::zero : Degree::constant;
  if (expr->is(ExprKind::name)) return of_name(expr->text);
  std::vector<Degree> of;
  for (const ExprPtr& argument : expr->args) of.push_back(degree_of(argument, of_name));
  const bool plain = std::all_of(of.begin(), of.end(), [](Degree degree) { return degree <= Degree::constant; });
  if (expr->is(ExprKind::unary) && expr->text == "-") return of[0];
  if (expr->is(ExprKind::binary)) {
    if (expr->text == "+" || expr->text == "-") return sum_of(of[0], of[1]);
    if (expr->text == "*") return product_of(of[0], of[1]);
    if (expr->text == "/") return quotient_of(of[0], of[1]);
  }
  if (expr->is_call("damped")) return product_of(of[0], of[1]);
  if (expr->is_call("lerp")) return of[2] <= Degree::constant ? sum_of(of[0], of[1]) : Degree::other;
  if (expr->is_call("where") || expr->is(ExprKind::conditional))
    return of[0] <= Degree::constant ? sum_of(of[1], of[2]) : Degree::other;
  return plain ? Degree::constant : Degree::other;
}

}  // namespace opgen
