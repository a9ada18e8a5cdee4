#include "opgen/analyze/regions.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "opgen/text/strings.h"

namespace opgen {
namespace {

using Real = long double;
using Step = Region::Step;

constexpr size_t kMaxRegions = 256;
const std::set<std::string> kComparisons = {"==", "!=", "<", "<=", ">", ">="};
const std::set<std::string> kSpecial = {"isnan", "isinf", "isfinite"};

bool is_condition(const Expr& expr) {
  if (expr.is(ExprKind::binary)) return kComparisons.count(expr.text) || expr.text == "&&" || expr.text == "||";
  return (expr.is(ExprKind::unary) && expr.text == "!") || expr.is_name("true") || expr.is_name("false");
}

/// `c != 0` of a condition c is c.
ExprPtr simplify(const ExprPtr& expr) {
  const bool compared = expr->is(ExprKind::binary) && (expr->text == "!=" || expr->text == "==") &&
                        is_condition(*expr->args[0]) && expr->args[1]->is(ExprKind::number) &&
                        literal_value(expr->args[1]->text) == Scalar(0);
  if (!compared) return expr;
  const ExprPtr inner = simplify(expr->args[0]);
  return expr->text == "!=" ? inner : make_expr(ExprKind::unary, "!", {inner}, expr->at);
}

/// Functions that stay the same in between.
const std::set<std::string> kSteps = {"floor", "ceil", "round", "trunc", "sign"};

/// Whether the sides of an equation may be equal all along: they have steps, or choices.
bool has_flat_parts(const ExprPtr& expr) {
  const bool flat = expr->is(ExprKind::conditional) ||
                    (expr->is(ExprKind::call) &&
                     (kSteps.count(expr->text) || expr->text == "where" || expr->text == "maximum" || expr->text == "minimum"));
  return flat || std::any_of(expr->args.begin(), expr->args.end(), has_flat_parts);
}

/// Whether the condition may hold all along, or nowhere: it is looked for, and not asked for.
bool may_be_nowhere(const ExprPtr& expr) {
  if (expr->is(ExprKind::call)) return kSpecial.count(expr->text) > 0;
  if (expr->is(ExprKind::binary) && (expr->text == "==" || expr->text == "!=") && has_flat_parts(expr)) return true;
  return is_condition(*expr) && std::any_of(expr->args.begin(), expr->args.end(), may_be_nowhere);
}

/// Whether only single points make the condition so.
bool is_exact(const ExprPtr& expr, bool holds, const IsWhole& is_whole) {
  if (expr->is(ExprKind::unary) && expr->text == "!") return is_exact(simplify(expr->args[0]), !holds, is_whole);
  if (expr->is(ExprKind::call))
    return kSpecial.count(expr->text) && holds != (expr->text == "isfinite") && expr->args[0]->args.empty();
  if (!expr->is(ExprKind::binary)) return false;
  if (expr->text == "&&" || expr->text == "||") {
    const bool first = is_exact(simplify(expr->args[0]), holds, is_whole),
               second = is_exact(simplify(expr->args[1]), holds, is_whole);
    return (expr->text == "&&") == holds ? first || second : first && second;
  }
  if ((expr->text == "==") != holds || (expr->text != "==" && expr->text != "!=") || has_flat_parts(expr)) return false;
  const std::vector<std::string> names = names_in(expr);
  return !std::all_of(names.begin(), names.end(), is_whole);
}

class Collector {
 public:
  explicit Collector(const IsWhole& is_whole) : is_whole_(is_whole) {}

  void collect(const ExprPtr& expr, const std::vector<Step>& path) {
    if (regions.size() >= kMaxRegions) return;
    if (path.empty() && !seen_.insert(expr.get()).second) return;
    if (expr->is(ExprKind::conditional) || expr->is_call("where")) {
      const ExprPtr condition = simplify(expr->args[0]);
      if (condition->is_name("true") || condition->is_name("false"))
        return collect(expr->args[condition->is_name("true") ? 1 : 2], path);
      collect(condition, path);
      for (const bool holds : {true, false}) collect(expr->args[holds ? 1 : 2], with(path, condition, holds));
      return;
    }
    for (const ExprPtr& part : expr->args) collect(part, path);
    if (!expr->is(ExprKind::call)) return;
    if (kSteps.count(expr->text)) {
      for (const char* side : {">", "<"})
        with(path, make_expr(ExprKind::binary, side, {expr, make_expr(ExprKind::number, "0", {}, expr->at)}, expr->at), true,
             false);
    }
    const bool larger = expr->text == "minimum" || expr->text == "maximum";
    if (larger || expr->text == "abs") {
      const ExprPtr other = larger ? expr->args[1] : make_expr(ExprKind::number, "0", {}, expr->at);
      const ExprPtr condition = make_expr(ExprKind::binary, ">", {expr->args[0], other}, expr->at);
      for (const bool holds : {true, false}) with(path, condition, holds, false);
    }
  }

  std::vector<Region> regions;

 private:
  /// The path that goes on so; a region, unless it is one already.
  std::vector<Step> with(std::vector<Step> path, const ExprPtr& condition, bool holds, bool written = true) {
    path.push_back({condition, holds});
    const bool asked_for =
        written && std::none_of(path.begin(), path.end(), [](const Step& step) { return may_be_nowhere(step.condition); });
    Region region{path, asked_for};
    const bool exact =
        std::any_of(path.begin(), path.end(), [&](const Step& step) { return is_exact(step.condition, step.holds, is_whole_); });
    if (!exact && texts_.insert(region.text()).second) regions.push_back(std::move(region));
    return path;
  }

  const IsWhole& is_whole_;
  std::set<std::string> texts_;
  std::set<const Expr*> seen_;
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

Distance::Distance(const Region& region, const Computed& computed) {
  for (const Step& step : region.path) path_.push_back(condition(step.condition, step.holds, computed));
}

Distance::Condition Distance::condition(const ExprPtr& written, bool holds, const Computed& computed) {
  using Made = Condition::Kind;
  const ExprPtr expr = simplify(written);
  const auto of = [&](size_t i) { return computed(expr->args[i]); };
  if (expr->is(ExprKind::unary) && expr->text == "!") return condition(expr->args[0], !holds, computed);
  if (expr->is(ExprKind::binary) && (expr->text == "&&" || expr->text == "||")) {
    Condition joined{(expr->text == "&&") == holds ? Made::both : Made::either};
    for (const ExprPtr& part : expr->args) joined.parts.push_back(condition(part, holds, computed));
    return joined;
  }
  if (!expr->is(ExprKind::binary) || !kComparisons.count(expr->text)) return {Made::truth, holds, false, {}, {computed(expr)}};
  if (expr->text == "==" || expr->text == "!=")
    return {(expr->text == "==") == holds ? Made::equal : Made::different, true, false, {}, {of(0), of(1)}};
  const bool greater = (expr->text[0] == '>') == holds;
  return {Made::greater, true, (expr->text.size() == 2) == holds, {}, {of(greater ? 0 : 1), of(greater ? 1 : 0)}};
}

Scalar Distance::distance_to(const Condition& condition, const std::vector<Scalar>& values, Real margin) {
  using Made = Condition::Kind;
  if (condition.kind == Made::both || condition.kind == Made::either) {
    const Scalar first = distance_to(condition.parts[0], values, margin),
                 second = distance_to(condition.parts[1], values, margin);
    if (!first || !second) return std::nullopt;
    return condition.kind == Made::both ? *first + *second : std::min(*first, *second);
  }
  const Scalar a = condition.of[0].at(values);
  if (condition.kind == Made::truth) return a ? Scalar((*a != 0) != condition.holds) : std::nullopt;
  const Scalar b = condition.of[1].at(values);
  if (!a || !b || std::isnan(*a) || std::isnan(*b)) return std::nullopt;
  if (condition.kind == Made::equal) return std::fabs(*a - *b);
  if (condition.kind == Made::different) return Real(*a == *b);
  const Real below = *b - *a + margin * (1 + std::min(std::fabs(*a), std::fabs(*b)));
  if (below > 0) return below;
  return *a > *b || (condition.or_equal && *a == *b) ? 0 : Real(1e-9L);  // at the very limit
}

Scalar Distance::at(const std::vector<Scalar>& values, Real margin) const {
  for (size_t i = 0; i < path_.size(); ++i) {
    const Scalar away = distance_to(path_[i], values, margin);
    if (!away) return std::nullopt;
    // What lies within a condition is not computed where it does not hold: that is farther than anything within.
    if (*away > 0) return static_cast<Real>(path_.size() - i - 1) + *away / (1 + *away);
  }
  return 0;
}

}  // namespace opgen
