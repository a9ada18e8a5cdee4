#include "opgen/analyze/slopes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "opgen/analyze/computation.h"
#include "opgen/analyze/differences.h"
#include "opgen/analyze/element_wise.h"
#include "opgen/analyze/elements.h"
#include "opgen/analyze/points.h"
#include "opgen/analyze/written_slopes.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

using Real = long double;

constexpr long double kAgreement = 1e-7L;  // of a formula with the differences, relative: constants have a few digits
constexpr int kPoints = 40;
constexpr int kLeastPoints = 12;        // of what is costly
constexpr size_t kSamples = 16;         // at which slopes are compared
constexpr int kPerRegion = 3;           // points at which slopes were compared
constexpr int kBesides = 12;            // points beside one within a region
constexpr int64_t kEnough = 3'000'000;  // costs of evaluations beyond which fewer points do
constexpr int64_t kMost = 60'000'000;   // and beyond which parts are not searched any more

/// A formula, and when it applies, compiled.
struct Compiled : WrittenSlope {
  explicit Compiled(WrittenSlope written) : WrittenSlope(std::move(written)) {}
  std::optional<Computation> applies = {};
  std::optional<Computation> gives = {};
};

class Slopes {
 public:
  Slopes(const Op& op, const Functions& functions)
      : op_(op), functions_(functions), points_(op), expression_(computation(op.pointwise)) {
    for (WrittenSlope& one : written_slopes(op)) written_.emplace_back(std::move(one));
    expressions_ = {op.pointwise};
    for (Compiled& one : written_) {
      if (one.when) one.applies.emplace(computation(one.when));
      one.gives.emplace(computation(one.value));
      const ExprPtr nothing = make_expr(ExprKind::number, "0", {});
      expressions_.push_back(one.when ? make_expr(ExprKind::conditional, "", {one.when, one.value, nothing}) : one.value);
    }
    regions_ = regions_of(expressions_, [&](const std::string& name) {
      const Argument* const argument = op_.schema.find(name);
      return argument && !argument->type.is_tensor_like();
    });
    for (const Region& region : regions_) distances_.emplace_back(region, [&](const ExprPtr& expr) { return computation(expr); });
    compared_in_.resize(regions_.size());
  }

  void check() {
    for (const Rule& rule : op_.reverse) check_elements(rule, "gradient", op_.schema.arguments[rule.of[0]].name);
    for (const Rule& rule : op_.forward) check_elements(rule, "tangent", op_.result_name(rule.of[0]));
    for (int i = 0; i < kPoints && (i < kLeastPoints || spent_ < kEnough); ++i) check_at(points_.draw(i));
    check_at_samples();
    check_at_literals();
    const std::vector<Real> beside = points_.beside_literals(expressions_);
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i) {
      if (!op_.schema.arguments[i].type.is_tensor_like()) continue;
      for (size_t at = 0; at < beside.size() && spent_ < kEnough; ++at) {
        Point point = points_.draw(static_cast<int>(at));
        point[i] = beside[at];
        check_at(point);
      }
    }
    for (size_t region = 0; region < regions_.size(); ++region) reach(region);
    if (compared_ || !known_) return;
    throw Problem(
        op_.body_at,
        fmt::format("no point was found at which the derivatives of '{}' can be compared with differences of '{}': give a "
                    "sample at which it has a slope, or say 'tests: {{gradients: false, because: \"...\"}}'",
                    op_.name(), to_string(op_.pointwise)));
  }

 private:
  void check_elements(const Rule& rule, const char* what, const std::string& of) const {
    const Term* const call = call_beyond_elements(rule.formula);
    if (call == nullptr) return;
    throw Problem(call->at,
                  fmt::format("the {} of '{}' calls '{}', and '{}' is pointwise: its derivatives call pointwise ops alone, and "
                              "sum_to(..., x.sizes()) around them; where that is meant say 'tests: {{gradients: false, "
                              "because: \"...\"}}'",
                              what, of, call->op->name(), op_.name()));
  }

  void check_at_samples() {
    for (size_t sample = 0; sample < op_.samples.size() && sample < kSamples; ++sample) {
      for (int turn = 0; turn < kPerRegion; ++turn) check_at(points_.of_sample(op_.samples[sample]));
    }
  }

  /// Where arguments are what formulas ask for, `p == 2`, or equal each other: there drawn ones never are. With tensors so,
  /// functions have slopes only if both sides have the same.
  void check_at_literals() {
    const std::vector<Real> literals = Points::literals(expressions_);
    const auto& arguments = op_.schema.arguments;
    const auto is_number = [&](size_t i) { return arguments[i].type.is(Base::floating) || arguments[i].type.is(Base::scalar); };
    const std::set<std::string> asked_for = compared_names();
    const auto may_be = [&](size_t i) { return is_number(i) || arguments[i].type.is_tensor(); };
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!may_be(i) || asked_for.count(arguments[i].name) == 0) continue;
      for (int turn = 0; turn < kPerRegion; ++turn) {
        Point point = points_.draw(turn);
        for (const Real literal : literals) {
          point[i] = literal;
          check_at(point, !is_number(i));
        }
        for (size_t j = 0; j < i; ++j) {
          if (!may_be(j)) continue;
          point[i] = point[j];
          check_at(point, !is_number(i) || !is_number(j));
        }
      }
    }
  }

  /// The names that comparisons read.
  std::set<std::string> compared_names() const {
    static const std::set<std::string> kComparisons = {"==", "!=", "<", "<=", ">", ">="};
    std::set<std::string> names;
    std::set<const Expr*> seen;
    const std::function<void(const ExprPtr&)> visit = [&](const ExprPtr& part) {
      if (!seen.insert(part.get()).second) return;
      if (part->is(ExprKind::binary) && kComparisons.count(part->text)) {
        for (const std::string& name : names_in(part)) names.insert(name);
      }
      for (const ExprPtr& operand : part->args) visit(operand);
    };
    for (const ExprPtr& expression : expressions_) visit(expression);
    return names;
  }

  /// The expression as a computation on the values of a point and, behind them, the result.
  Computation computation(const ExprPtr& expr) const {
    const auto place = [&](const std::string& name) -> std::optional<size_t> {
      if (name == Elements::kResult) return op_.schema.arguments.size();
      return op_.schema.find(name) ? std::optional(op_.index_of(name)) : std::nullopt;
    };
    return {expr, place, functions_};
  }
  Scalar result_at(const std::vector<Scalar>& values) const {
    spent_ += cost_;
    return expression_.at(values);
  }
  void go_to(const Point& point) {
    values_ = point;
    values_.push_back(result_at(point));
  }

  void check_at(const Point& point, bool both_sides = false) {
    go_to(point);
    known_ = known_ || values_.back();
    if (!values_.back() || !std::isfinite(*values_.back())) return;
    bool compared = false;
    for (size_t input = 0; input < op_.schema.arguments.size(); ++input) {
      if (!op_.schema.arguments[input].type.is_tensor()) continue;
      const std::optional<Slope> expected = slope(input, both_sides);
      if (!expected) continue;
      compared = compared_ = true;
      for (const Compiled& one : written_) {
        if (one.input == input) compare(one, *expected);
      }
    }
    for (size_t i = 0; compared && i < regions_.size(); ++i) {
      if (compared_in_[i] < kPerRegion && distances_[i].at(values_, 0) == Scalar(0)) ++compared_in_[i];
    }
    if (std::exchange(doubtful_, false)) {
      for (int i = 0; i < kBesides / 2; ++i) check_at(points_.beside(point));
    }
  }

  /// Compares at points of a region in which few were drawn.
  void reach(size_t region) {
    if (compared_in_[region] >= kPerRegion) return;
    if (spent_ > kMost)
      throw Problem(
          op_.body_at,
          fmt::format("'{}' has more conditions than derivatives can be compared for: make it of several ops", op_.name()));
    for (const Sample& sample : op_.samples) {
      for (int turn = 0; turn < kPerRegion; ++turn) check_at(points_.of_sample(sample));
    }
    bool found = compared_in_[region] > 0;
    for (const Real margin : {0.1L, 1e-3L, 1e-5L}) {
      if (compared_in_[region] >= kPerRegion) return;
      const auto far = [&](const Point& point) {
        go_to(point);
        for (const Region::Step& step : regions_[region].path) spent_ += step.condition->parts;
        return distances_[region].at(values_, margin);
      };
      const std::optional<Point> point = points_.search(far);
      if (!point) continue;
      found = true;
      for (int i = 0; i < kBesides && compared_in_[region] < kPerRegion; ++i) check_at(i == 0 ? *point : points_.beside(*point));
    }
    if (found || !regions_[region].written || !is_known(distances_[region])) return;
    const Region::Step& last = regions_[region].path.back();
    throw Problem(
        last.condition->at.file == op_.body_at.file ? last.condition->at : op_.body_at,
        fmt::format("no point was found at which '{}' holds, so the derivatives of '{}' are compared with nothing there: "
                    "leave out what cannot be, or give a sample that it holds for",
                    regions_[region].text(), op_.name()));
  }

  /// Whether its conditions can be evaluated at all.
  bool is_known(const Distance& region) {
    for (int i = 0; i < kLeastPoints; ++i) {
      go_to(points_.draw(i));
      if (values_.back() && region.at(values_, 0)) return true;
    }
    return false;
  }

  std::optional<Slope> slope(size_t input, bool both_sides) const {
    Point moved = values_;
    const auto at = [&](Real distance) {
      moved[input] = *values_[input] + distance;
      return result_at(moved);
    };
    return both_sides ? slope_from_both_sides(at, *values_.back()) : slope_by_differences(at, *values_.back());
  }

  /// What differs at one point may be the differences' fault: it is refused at the second, perhaps beside it.
  void compare(const Compiled& one, const Slope& expected) {
    if (one.applies) {
      const Scalar holds = one.applies->at(values_);
      if (!holds || *holds == 0) return;
    }
    const Scalar given = one.gives->at(values_);
    const Real tolerance =
        kAgreement * std::fabs(expected.value) + 100 * expected.error + 1e-12L * std::fmin(1, std::fabs(*values_.back()));
    if (!given || std::fabs(*given - expected.value) <= tolerance) return;
    std::vector<std::string> at;
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i)
      at.push_back(fmt::format("{} = {:.4g}", op_.schema.arguments[i].name, static_cast<double>(*values_[i])));
    const std::string& name = op_.schema.arguments[one.input].name;
    const Problem problem =
        one.term == nullptr
            ? Problem(op_.body_at,
                      fmt::format("'{}' is said to have no derivative, and that of '{}' along it is {:.6g} at {}: write "
                                  "it, or where that is meant say 'tests: {{gradients: false, because: \"...\"}}'",
                                  name, to_string(op_.pointwise), static_cast<double>(expected.value), join(at)))
            : Problem(one.term->at,
                      fmt::format(
                          "the {} is not the derivative of '{}': at {}{} it is {:.6g}, and should be {:.6g}; where that is meant "
                          "say 'tests: {{gradients: false, because: \"...\"}}'",
                          one.forward ? fmt::format("tangent along '{}'", name) : fmt::format("gradient of '{}'", name),
                          to_string(op_.pointwise), join(at), one.where.empty() ? "" : " where " + one.where,
                          static_cast<double>(*given), static_cast<double>(expected.value)));
    const auto [first, fresh] = differing_.emplace(std::pair(one.term, one.input), problem);
    if (!fresh) throw Problem(first->second);
    doubtful_ = true;
  }

  const Op& op_;
  const Functions& functions_;
  Points points_;
  Computation expression_;
  int64_t cost_ = expression_.cost();
  mutable int64_t spent_ = 0;
  std::vector<Compiled> written_;
  std::vector<ExprPtr> expressions_;
  std::vector<Region> regions_;
  std::vector<Distance> distances_;                              // of the regions
  std::vector<int> compared_in_;                                 // points of each region
  std::vector<Scalar> values_;                                   // of the point, and the result there
  bool known_ = false;                                           // whether the op could be computed at any point
  bool compared_ = false;                                        // whether a slope was found at any
  bool doubtful_ = false;                                        // something differed at this point for the first time
  std::map<std::pair<const Term*, size_t>, Problem> differing_;  // the first point at which a formula differs for an input
};

}  // namespace

void check_slopes(const Program& program, Problems& problems) {
  for (const auto& op : program.ops) {
    const bool written = op->body == Op::Body::pointwise && !op->derivative_auto && !op->condition;
    const bool believed = op->derived && op->non_differentiable;  // of the last order that is fused
    if (!written || believed || op->external || !op->test_gradients || op->dtypes == Dtypes::integral) continue;
    attempt(problems, [&] { Slopes(*op, program.functions).check(); });
  }
}

}  // namespace opgen
