#include "opgen/analyze/scalars.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <vector>

namespace opgen {
namespace {

using Real = long double;
using Kind = Expr::Kind;

Real sign(Real x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
Real softplus(Real x) { return std::fmax(x, Real{0}) + std::log1p(std::exp(-std::fabs(x))); }
Real remainder(Real x, Real y) {
  const Real rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/// The scalar functions of Deckle's functions.yaml that mean nothing in other functions.
const std::map<std::string, Real (*)(Real)> kOfOne = {
    {"abs", [](Real x) { return std::fabs(x); }},
    {"sign", sign},
    {"floor", [](Real x) { return std::floor(x); }},
    {"ceil", [](Real x) { return std::ceil(x); }},
    {"round", [](Real x) { return std::nearbyint(x); }},
    {"trunc", [](Real x) { return std::trunc(x); }},
    {"square", [](Real x) { return x * x; }},
    {"reciprocal", [](Real x) { return 1 / x; }},
    {"sqrt", [](Real x) { return std::sqrt(x); }},
    {"rsqrt", [](Real x) { return 1 / std::sqrt(x); }},
    {"exp", [](Real x) { return std::exp(x); }},
    {"exp2", [](Real x) { return std::exp2(x); }},
    {"expm1", [](Real x) { return std::expm1(x); }},
    {"log", [](Real x) { return std::log(x); }},
    {"log2", [](Real x) { return std::log2(x); }},
    {"log10", [](Real x) { return std::log10(x); }},
    {"log1p", [](Real x) { return std::log1p(x); }},
    {"sigmoid", [](Real x) { return 1 / (1 + std::exp(-x)); }},
    {"log_sigmoid", [](Real x) { return -softplus(-x); }},
    {"softplus", softplus},
    {"tanh", [](Real x) { return std::tanh(x); }},
    {"sin", [](Real x) { return std::sin(x); }},
    {"cos", [](Real x) { return std::cos(x); }},
    {"tan", [](Real x) { return std::tan(x); }},
    {"atan", [](Real x) { return std::atan(x); }},
    {"erf", [](Real x) { return std::erf(x); }},
    {"erfc", [](Real x) { return std::erfc(x); }},
    {"normal_cdf", [](Real x) { return std::erfc(-x / std::sqrt(Real{2})) / 2; }},
    {"isnan", [](Real x) { return Real(std::isnan(x)); }},
    {"isinf", [](Real x) { return Real(std::isinf(x)); }},
    {"isfinite", [](Real x) { return Real(std::isfinite(x)); }},
};

const std::map<std::string, Real (*)(Real, Real)> kOfTwo = {
    {"minimum", [](Real x, Real y) { return std::isnan(x) || x < y ? x : y; }},
    {"maximum", [](Real x, Real y) { return std::isnan(x) || x > y ? x : y; }},
    {"atan2", [](Real y, Real x) { return std::atan2(y, x); }},
    {"hypot", [](Real x, Real y) { return std::hypot(x, y); }},
    {"fmod", [](Real x, Real y) { return std::fmod(x, y); }},
    {"remainder", remainder},
    {"floor_divide", [](Real x, Real y) { return std::round((x - remainder(x, y)) / y); }},
    {"pow", [](Real x, Real y) { return std::pow(x, y); }},
    {"logistic_loss", [](Real x, Real t) { return softplus(x) - x * t; }},
    {"damped", [](Real vanishing, Real factor) { return vanishing == 0 ? 0 : vanishing * factor; }},
};

const std::set<std::string> kSteps = {"floor", "ceil", "round", "trunc"};

}  // namespace

Real (*function_of_one(const std::string& name))(Real) {
  const auto found = kOfOne.find(name);
  return found == kOfOne.end() ? nullptr : found->second;
}
Real (*function_of_two(const std::string& name))(Real, Real) {
  const auto found = kOfTwo.find(name);
  return found == kOfTwo.end() ? nullptr : found->second;
}
bool is_beyond_steps(const std::string& name, Real x) { return kSteps.count(name) && std::fabs(x) > 1e6L; }

Scalar literal_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text == "inf") return std::numeric_limits<Real>::infinity();
  if (text == "nan") return std::numeric_limits<Real>::quiet_NaN();
  if (text == "pi") return std::acos(Real{-1});
  char* end = nullptr;
  const Real value = std::strtold(text.c_str(), &end);
  return end != text.c_str() && *end == 0 ? Scalar(value) : std::nullopt;
}

Scalar apply(const std::string& operation, Real a, Real b) {
  if (operation == "+") return a + b;
  if (operation == "-") return a - b;
  if (operation == "*") return a * b;
  if (operation == "/") return a / b;
  if (operation == "%") return std::fmod(a, b);
  if (operation == "==") return a == b;
  if (operation == "!=") return a != b;
  if (operation == "<") return a < b;
  if (operation == "<=") return a <= b;
  if (operation == ">") return a > b;
  if (operation == ">=") return a >= b;
  if (operation == "&&") return a != 0 && b != 0;
  if (operation == "||") return a != 0 || b != 0;
  return std::nullopt;
}

Scalar value_of(const ExprPtr& expr, const std::function<Scalar(const std::string&)>& of_name, const Functions& functions) {
  const auto of = [&](size_t i) { return value_of(expr->args[i], of_name, functions); };
  if (expr->is(Kind::number)) return literal_value(expr->text);
  if (expr->is(Kind::name)) {
    const Scalar value = of_name(expr->text);
    return value ? value : literal_value(expr->text);
  }
  if (expr->is(Kind::conditional) || expr->is_call("where")) {
    const Scalar condition = of(0);
    return condition ? of(*condition != 0 ? 1 : 2) : std::nullopt;
  }
  std::vector<Real> values;
  for (size_t i = 0; i < expr->args.size(); ++i) {
    const Scalar value = of(i);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  if (expr->is(Kind::unary)) return expr->text == "-" ? -values[0] : values[0] == 0;
  if (expr->is(Kind::binary)) return apply(expr->text, values[0], values[1]);
  if (!expr->is(Kind::call)) return std::nullopt;
  const auto function = functions.find(expr->text);
  if (function != functions.end() && function->second.means) {
    const std::vector<std::string>& parameters = function->second.parameters;
    const auto of_parameter = [&](const std::string& name) -> Scalar {
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (parameters[i] == name) return values[i];
      }
      return std::nullopt;
    };
    return value_of(function->second.means, of_parameter, functions);
  }
  if (function != functions.end() && !function->second.home.is_deckle()) return std::nullopt;
  if (is_beyond_steps(expr->text, values[0])) return std::nullopt;
  if (values.size() == 1 && kOfOne.count(expr->text)) return kOfOne.at(expr->text)(values[0]);
  if (values.size() == 2 && kOfTwo.count(expr->text)) return kOfTwo.at(expr->text)(values[0], values[1]);
  return std::nullopt;
}

}  // namespace opgen
