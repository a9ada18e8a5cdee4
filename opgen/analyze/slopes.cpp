#include "opgen/analyze/slopes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "opgen/analyze/elements.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

using Real = long double;
using What = Symbol::What;

constexpr int kPoints = 40;
constexpr size_t kMaxLiterals = 16;
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
    for (int point = 0; point < kPoints; ++point) check_point(point);
    const std::vector<Real> beside = literals();
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i) {
      if (!op_.schema.arguments[i].type.is_tensor_like()) continue;
      for (size_t at = 0; at < beside.size(); ++at) check_point(static_cast<int>(at), std::pair(i, beside[at]));
    }
  }

 private:
  /// At a drawn point, of which one argument may be given.
  void check_point(int point, std::optional<std::pair<size_t, Real>> given = {}) {
    draw(point);
    if (given) point_[given->first] = given->second;
    result_ = elements_.of_expression(op_, point_);
    if (!result_ || !std::isfinite(*result_)) return;
    for (const size_t input : op_.differentiable()) check_input(input);
  }

  /// Values on both sides of the numbers that the expression is written with, near and far, each twice.
  std::vector<Real> literals() {
    std::set<Real> numbers;
    std::vector<ExprPtr> parts = {op_.pointwise};
    while (!parts.empty() && numbers.size() < kMaxLiterals) {
      const ExprPtr part = parts.back();
      parts.pop_back();
      const Scalar value = part->is(Expr::Kind::number) ? literal_value(part->text) : std::nullopt;
      if (value && std::isfinite(*value)) numbers.insert({*value, -*value});
      parts.insert(parts.end(), part->args.begin(), part->args.end());
    }
    std::vector<Real> values;
    for (const Real number : numbers) {
      for (const Real beside : {-1.0L, -1e-3L, 1e-3L, 1.0L}) {
        for (int turn = 0; turn < 2; ++turn) values.push_back(number + beside * draw_.uniform(0.9L, 1.1L));
      }
    }
    return values;
  }

  /// Near 0, of ordinary size and larger; every third point positive, and some between 0 and 1, for functions that ask for it.
  void draw(int point) {
    const Real scale = std::array<Real, 4>{0.3L, 1, 2.5L, 6}[point % 4];
    const std::vector<Sample>& samples = op_.samples;
    const auto chosen = static_cast<size_t>(draw_.uniform(0, static_cast<Real>(samples.size())));
    const Sample* const sample = samples.empty() ? nullptr : &samples[chosen];
    const Real fraction = draw_.uniform(0.7L, 1);  // of all numbers of the sample: their order and signs stay
    point_.clear();
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i) {
      const Argument& argument = op_.schema.arguments[i];
      const Real low = point % 3 == 0 ? 0.05L : -1;
      Real value = draw_.uniform(low, 1) * (point % 6 == 0 ? 1 : scale);
      const Scalar written = sample ? of_sample(*sample, i) : std::nullopt;
      if (argument.type.is(Base::boolean)) value = value > 0.5L * low + 0.5L;
      if (argument.type.is(Base::integer)) value = whole(point, value, written);
      if (written && (argument.type.is(Base::floating) || argument.type.is(Base::scalar))) value = *written * fraction;
      point_.emplace_back(value);
    }
  }

  /// The number that a sample gives for an argument, or leaves at its default.
  Scalar of_sample(const Sample& sample, size_t argument) const {
    const SampleArgument& given = sample.arguments[argument];
    if (given.kind == SampleArgument::Kind::standard)
      return literal_value(op_.schema.arguments[argument].default_value.value_or(""));
    return given.kind == SampleArgument::Kind::number ? literal_value(given.values[0]) : std::nullopt;
  }

  /// Integers: those of samples, 0, 1, negative ones and others.
  static Real whole(int point, Real drawn, const Scalar& written) {
    if (point % 5 == 1 && written) return *written;
    if (point % 5 == 2) return std::array<Real, 4>{0, 1, -1, -2}[point / 5 % 4];
    return std::ceil(std::fabs(drawn));
  }

  /// The slope of the expression along an input; nullopt where it has none. Steps are no multiples of one another, nor of what
  /// periods are written with, and small ones serve where the expression turns nearby.
  std::optional<Slope> slope(size_t input) const {
    const std::optional<Slope> ordinary = slope(input, 1);
    return ordinary ? ordinary : slope(input, 1e-3L);
  }

  std::optional<Slope> slope(size_t input, Real scale) const {
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
    const Scalar wide = with_step(1.0307e-3L * scale), middle = with_step(2.1713e-4L * scale);
    const Scalar narrow = with_step(3.1871e-5L * scale);
    if (!wide || !middle || !narrow || !std::isfinite(*middle)) return std::nullopt;
    const Real rounding = std::fabs(*result_) * std::numeric_limits<Real>::epsilon() / (3.1871e-5L * scale);
    const Real error = std::max(std::fabs(*wide - *middle), std::fabs(*narrow - *middle)) + 10 * rounding;
    const bool smooth = error < kTolerance / 10 * (1 + std::fabs(*middle));
    return smooth ? std::optional(Slope{*middle, error}) : std::nullopt;
  }

  void check_input(size_t input) {
    const std::optional<Slope> expected = slope(input);
    if (!expected) return;
    for (const Rule& rule : op_.reverse) {
      if (!applies(rule)) continue;
      compare_for(rule, rule.formula, input, *expected);
      for (const auto& [device, formula] : rule.on) compare_for(rule, formula, input, *expected);
    }
    for (const Rule& rule : op_.forward) {
      if (!applies(rule)) continue;
      compare(rule.formula, *rule.formula.value, input, *expected, true);
      for (const auto& [device, formula] : rule.on) compare(formula, *formula.value, input, *expected, true);
    }
    for (const TangentTerm& term : op_.tangent_terms) {
      if (term.input == input) compare(term.formula, *term.formula.value, input, *expected, true);
    }
  }

  /// What a gradient formula gives for an input: all of it, or one element of a tuple.
  void compare_for(const Rule& rule, const Block& formula, size_t input, const Slope& expected) {
    const auto found = std::find(rule.of.begin(), rule.of.end(), input);
    if (found == rule.of.end()) return;
    const auto position = static_cast<size_t>(found - rule.of.begin());
    const auto of_input = [&](const Symbol& symbol) { return of_symbol(symbol, input); };
    const Term* const value =
        rule.of.size() == 1 ? formula.value.get() : elements_.part_of(formula, *formula.value, position, of_input);
    if (value) compare(formula, *value, input, expected, false);
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
  void compare(const Block& formula, const Term& value, size_t input, const Slope& expected, bool forward) {
    const Scalar given = elements_.of(formula, value, [&](const Symbol& symbol) { return of_symbol(symbol, input); });
    const Real tolerance = kTolerance * std::fabs(expected.value) + 100 * expected.error + 1e-12L;
    if (!given || std::fabs(*given - expected.value) <= tolerance) return;
    std::vector<std::string> at;
    for (size_t i = 0; i < point_.size(); ++i)
      at.push_back(fmt::format("{} = {:.4g}", op_.schema.arguments[i].name, static_cast<double>(*point_[i])));
    const std::string& name = op_.schema.arguments[input].name;
    const Problem problem(
        value.at,
        fmt::format("the {} is not the derivative of '{}': at {} it is {:.6g}, and should be {:.6g}; where that is meant "
                    "say 'tests: {{gradients: false, because: \"...\"}}'",
                    forward ? fmt::format("tangent along '{}'", name) : fmt::format("gradient of '{}'", name),
                    to_string(op_.pointwise), join(at), static_cast<double>(*given), static_cast<double>(expected.value)));
    const auto [first, fresh] = differing_.emplace(std::pair(&value, input), problem);
    if (!fresh) throw Problem(first->second);
  }

  const Op& op_;
  Elements elements_;
  Draw draw_;
  std::vector<Scalar> point_;
  Scalar result_;
  std::map<std::pair<const Term*, size_t>, Problem> differing_;  // the first point at which a formula differs for an input
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
