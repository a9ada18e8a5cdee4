#include "opgen/analyze/regions.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "opgen/text/strings.h"

namespace opgen {
namespace {

using Kind = Expr::Kind;
using Real = long double;
using Step = Region::Step;

constexpr size_t kMaxRegions = 256;
const std::set<std::string> kComparisons = {"==", "!=", "<", "<=", ">", ">="};
const std::set<std::string> kSpecial = {"isnan", "isinf", "isfinite"};

bool is_condition(const Expr& expr) {
  if (expr.is(Kind::binary)) return kComparisons.count(expr.text) || expr.text == "&&" || expr.text == "||";
  return (expr.is(Kind::unary) && expr.text == "!") || expr.is_name("true") || expr.is_name("false");
}

/// `c != 0` of a condition c is c.
ExprPtr simplified(const ExprPtr& expr) {
  const bool compared = expr->is(Kind::binary) && (expr->text == "!=" || expr->text == "==") && is_condition(*expr->args[0]) &&
                        expr->args[1]->is(Kind::number) && literal_value(expr->args[1]->text) == Scalar(0);
  if (!compared) return expr;
  const ExprPtr inner = simplified(expr->args[0]);
  return expr->text == "!=" ? inner : make_expr(Kind::unary, "!", {inner}, expr->at);
}

/// Whether only single points make the condition so.
bool is_exact(const ExprPtr& expr, bool holds, const IsWhole& is_whole) {
  if (expr->is(Kind::unary) && expr->text == "!") return is_exact(simplified(expr->args[0]), !holds, is_whole);
  if (expr->is(Kind::call)) return kSpecial.count(expr->text) && holds != (expr->text == "isfinite");
  if (!expr->is(Kind::binary)) return false;
  if (expr->text == "&&" || expr->text == "||") {
    const bool first = is_exact(simplified(expr->args[0]), holds, is_whole),
               second = is_exact(simplified(expr->args[1]), holds, is_whole);
    return (expr->text == "&&") == holds ? first || second : first && second;
  }
  if ((expr->text == "==") != holds || (expr->text != "==" && expr->text != "!=")) return false;
  const std::vector<std::string> names = names_in(expr);
  return !std::all_of(names.begin(), names.end(), is_whole);
}

class Collector {
 public:
  explicit Collector(const IsWhole& is_whole) : is_whole_(is_whole) {}

  void collect(const ExprPtr& expr, const std::vector<Step>& path) {
    if (regions.size() >= kMaxRegions) return;
    if (path.empty() && !seen_.insert(expr.get()).second) return;
    if (expr->is(Kind::conditional) || expr->is_call("where")) {
      const ExprPtr condition = simplified(expr->args[0]);
      if (condition->is_name("true") || condition->is_name("false"))
        return collect(expr->args[condition->is_name("true") ? 1 : 2], path);
      collect(condition, path);
      for (const bool holds : {true, false}) collect(expr->args[holds ? 1 : 2], with(path, condition, holds));
      return;
    }
    for (const ExprPtr& part : expr->args) collect(part, path);
    if (!expr->is(Kind::call)) return;
    const bool larger = expr->text == "minimum" || expr->text == "maximum";
    if (larger || expr->text == "abs") {
      const ExprPtr other = larger ? expr->args[1] : make_expr(Kind::number, "0", {}, expr->at);
      const ExprPtr condition = make_expr(Kind::binary, ">", {expr->args[0], other}, expr->at);
      for (const bool holds : {true, false}) with(path, condition, holds, false);
    }
  }

  std::vector<Region> regions;

 private:
  /// The path that goes on so; a region, unless it is one already.
  std::vector<Step> with(std::vector<Step> path, const ExprPtr& condition, bool holds, bool written = true) {
    path.push_back({condition, holds});
    Region region{path, written};
    const bool exact =
        std::any_of(path.begin(), path.end(), [&](const Step& step) { return is_exact(step.condition, step.holds, is_whole_); });
    if (!exact && texts_.insert(region.text()).second) regions.push_back(std::move(region));
    return path;
  }

  const IsWhole& is_whole_;
  std::set<std::string> texts_;
  std::set<const Expr*> seen_;
};

/// How far a condition is from being so.
class Distance {
 public:
  Distance(Real margin, const OfName& of_name, const Functions& functions)
      : margin_(margin), of_name_(of_name), functions_(functions) {}

  Scalar of(const ExprPtr& written, bool holds) const {
    const ExprPtr expr = simplified(written);
    if (expr->is(Kind::unary) && expr->text == "!") return of(expr->args[0], !holds);
    if (expr->is(Kind::binary) && (expr->text == "&&" || expr->text == "||")) {
      const Scalar first = of(expr->args[0], holds), second = of(expr->args[1], holds);
      if (!first || !second) return std::nullopt;
      return (expr->text == "&&") == holds ? *first + *second : std::min(*first, *second);
    }
    if (!expr->is(Kind::binary) || !kComparisons.count(expr->text)) {
      const Scalar value = value_of(expr, of_name_, functions_);
      return value ? Scalar((*value != 0) != holds) : std::nullopt;
    }
    const Scalar a = value_of(expr->args[0], of_name_, functions_), b = value_of(expr->args[1], of_name_, functions_);
    if (!a || !b || std::isnan(*a) || std::isnan(*b)) return std::nullopt;
    const bool equality = expr->text == "==" || expr->text == "!=";
    if (equality) return (expr->text == "==") == holds ? std::fabs(*a - *b) : Real(*a == *b);
    const bool greater = (expr->text[0] == '>') == holds;
    const Real missing = (greater ? *b - *a : *a - *b) + margin_ * (1 + std::min(std::fabs(*a), std::fabs(*b)));
    if (missing > 0) return missing;
    return apply(expr->text, *a, *b) == Scalar(Real(holds)) ? 0 : Real(1e-9L);  // at the very limit
  }

 private:
  Real margin_;
  const OfName& of_name_;
  const Functions& functions_;
};

}  // namespace

std::string Region::text() const {
  std::vector<std::string> parts;
  for (const Step& step : path) parts.push_back(step.holds ? to_string(step.condition) : "!(" + to_string(step.condition) + ")");
  return join(parts, " && ");
}

std::vector<Region> regions_of(const std::vector<ExprPtr>& expressions, const IsWhole& is_whole) {
  Collector collector(is_whole);
  for (const ExprPtr& expression : expressions) collector.collect(expression, {});
  return std::move(collector.regions);
}

Scalar distance(const Region& region, Real margin, const OfName& of_name, const Functions& functions) {
  const Distance measure(margin, of_name, functions);
  for (size_t i = 0; i < region.path.size(); ++i) {
    const Scalar missing = measure.of(region.path[i].condition, region.path[i].holds);
    if (!missing) return std::nullopt;
    // What lies within a condition is not computed where it does not hold: that is farther than anything within.
    if (*missing > 0) return static_cast<Real>(region.path.size() - i - 1) + *missing / (1 + *missing);
  }
  return 0;
}

}  // namespace opgen
