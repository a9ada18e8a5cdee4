#include "opgen/analyze/slopes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "opgen/analyze/elements.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

using Real = long double;
using What = Symbol::What;

constexpr int kPoints = 40;
constexpr Real kTolerance = 1e-5L;  // of formulas, whose constants have a few digits

struct Slope {
  Real value;
  Real error;  // about
};

/// The same points in every run.
class Draw {
 public:
  Real uniform(Real low, Real high) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return low + (high - low) * static_cast<Real>(state_ >> 11) / static_cast<Real>(uint64_t{1} << 53);
  }

 private:
  uint64_t state_ = 20260101;
};

class Slopes {
 public:
  Slopes(const Op& op, const Functions& functions) : op_(op), elements_(functions) {}

  void check() {
    for (int point = 0; point < kPoints; ++point) {
      draw(point);
      result_ = elements_.of_expression(op_, point_);
      if (!result_ || !std::isfinite(*result_)) continue;
      for (const size_t input : op_.differentiable()) check_input(input);
    }
  }

 private:
  /// Near 0, of ordinary size and larger; every third point positive, and some between 0 and 1, for functions that ask for it.
  void draw(int point) {
    const Real scale = std::array<Real, 4>{0.3L, 1, 2.5L, 6}[point % 4];
    point_.clear();
    for (const Argument& argument : op_.schema.arguments) {
      const Real low = point % 3 == 0 ? 0.05L : -1;
      Real value = draw_.uniform(low, 1) * (point % 6 == 0 ? 1 : scale);
      if (argument.type.is(Base::boolean)) value = value > 0.5L * low + 0.5L;
      if (argument.type.is(Base::integer)) value = std::ceil(std::fabs(value));
      point_.emplace_back(value);
    }
  }

  /// The slope of the expression along an input; nullopt where it has none.
  std::optional<Slope> slope(size_t input) const {
    const auto with_step = [&](Real step) -> Scalar {
      const auto at = [&](Real distance) -> Scalar {
        std::vector<Scalar> moved = point_;
        *moved[input] += distance;
        return elements_.of_expression(op_, moved);
      };
      const Scalar a = at(-2 * step), b = at(-step), c = at(step), d = at(2 * step);
      if (!a || !b || !c || !d) return std::nullopt;
      return (*a - 8 * *b + 8 * *c - *d) / (12 * step);
    };
    constexpr Real kNarrow = 3e-5L;
    const Scalar wide = with_step(1e-3L), middle = with_step(2e-4L), narrow = with_step(kNarrow);
    if (!wide || !middle || !narrow || !std::isfinite(*middle)) return std::nullopt;
    const Real rounding = std::fabs(*result_) * std::numeric_limits<Real>::epsilon() / kNarrow;
    const Real error = std::max(std::fabs(*wide - *middle), std::fabs(*narrow - *middle)) + 10 * rounding;
    const bool smooth = error < kTolerance / 10 * (1 + std::fabs(*middle));
    return smooth ? std::optional(Slope{*middle, error}) : std::nullopt;
  }

  void check_input(size_t input) {
    const std::optional<Slope> expected = slope(input);
    if (!expected) return;
    for (const Rule& rule : op_.reverse) {
      if (rule.of == std::vector{input} && applies(rule)) compare(rule.formula, input, *expected, false);
    }
    for (const Rule& rule : op_.forward) {
      if (applies(rule)) compare(rule.formula, input, *expected, true);
    }
    for (const TangentTerm& term : op_.tangent_terms) {
      if (term.input == input) compare(term.formula, input, *expected, true);
    }
  }

  Scalar of_symbol(const Symbol& symbol, size_t input) const {
    if (symbol.what == What::argument || symbol.what == What::primal) return point_[symbol.index];
    if (symbol.what == What::result) return result_;
    if (symbol.what == What::gradient) return 1;
    return symbol.what == What::tangent ? Scalar(symbol.index == input) : std::nullopt;
  }

  bool applies(const Rule& rule) const {
    if (!rule.when) return true;
    const Scalar holds = elements_.of({{}, rule.when}, [&](const Symbol& symbol) { return of_symbol(symbol, 0); });
    return holds && *holds != 0;
  }

  /// What differs at one point may be the differences' fault: it is refused at the second.
  void compare(const Block& formula, size_t input, const Slope& expected, bool forward) {
    const Scalar given = elements_.of(formula, [&](const Symbol& symbol) { return of_symbol(symbol, input); });
    const Real tolerance = kTolerance * std::fabs(expected.value) + 100 * expected.error + 1e-12L;
    if (!given || std::fabs(*given - expected.value) <= tolerance) return;
    std::vector<std::string> at;
    for (size_t i = 0; i < point_.size(); ++i)
      at.push_back(fmt::format("{} = {:.4g}", op_.schema.arguments[i].name, static_cast<double>(*point_[i])));
    const std::string& name = op_.schema.arguments[input].name;
    const Problem problem(
        formula.value->at,
        fmt::format("the {} is not the derivative of '{}': at {} it is {:.6g}, and should be {:.6g}; where that is meant "
                    "say 'tests: {{gradients: false, because: \"...\"}}'",
                    forward ? fmt::format("tangent along '{}'", name) : fmt::format("gradient of '{}'", name),
                    to_string(op_.pointwise), join(at), static_cast<double>(*given), static_cast<double>(expected.value)));
    const auto [first, fresh] = differing_.emplace(std::pair(&formula, input), problem);
    if (!fresh) throw Problem(first->second);
  }

  const Op& op_;
  Elements elements_;
  Draw draw_;
  std::vector<Scalar> point_;
  Scalar result_;
  std::map<std::pair<const Block*, size_t>, Problem> differing_;  // the first point at which a formula differs for an input
};

}  // namespace

void check_slopes(const Program& program, Problems& problems) {
  for (const auto& op : program.ops) {
    const bool written = op->body == Op::Body::pointwise && !op->derivative_auto && !op->condition;
    if (!written || op->external || !op->test_gradients) continue;
    try {
      Slopes(*op, program.functions).check();
    } catch (const Problem& problem) {
      problems.emplace_back(problem.what());
    }
  }
}

}  // namespace opgen
