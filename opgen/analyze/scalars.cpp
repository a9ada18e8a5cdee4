#include "opgen/analyze/scalars.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>

namespace opgen {
namespace {

using Real = long double;

Real sign(Real x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
Real softplus(Real x) { return std::fmax(x, Real{0}) + std::log1p(std::exp(-std::fabs(x))); }
Real remainder(Real x, Real y) {
  const Real rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/// Operators, and the scalar functions of Deckle's functions.yaml that mean nothing in other functions.
const std::map<std::string, Real (*)(Real)> kOfOne = {
    {"-", [](Real x) { return -x; }},
    {"!", [](Real x) { return Real(x == 0); }},
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
    {"+", [](Real x, Real y) { return x + y; }},
    {"-", [](Real x, Real y) { return x - y; }},
    {"*", [](Real x, Real y) { return x * y; }},
    {"/", [](Real x, Real y) { return x / y; }},
    {"%", [](Real x, Real y) { return std::fmod(x, y); }},
    {"==", [](Real x, Real y) { return Real(x == y); }},
    {"!=", [](Real x, Real y) { return Real(x != y); }},
    {"<", [](Real x, Real y) { return Real(x < y); }},
    {"<=", [](Real x, Real y) { return Real(x <= y); }},
    {">", [](Real x, Real y) { return Real(x > y); }},
    {">=", [](Real x, Real y) { return Real(x >= y); }},
    {"&&", [](Real x, Real y) { return Real(x != 0 && y != 0); }},
    {"||", [](Real x, Real y) { return Real(x != 0 || y != 0); }},
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

const std::set<std::string> kRoundings = {"floor", "ceil", "round", "trunc"};

}  // namespace

Real (*function_of_one(const std::string& name))(Real) {
  const auto found = kOfOne.find(name);
  return found == kOfOne.end() ? nullptr : found->second;
}
Real (*function_of_two(const std::string& name))(Real, Real) {
  const auto found = kOfTwo.find(name);
  return found == kOfTwo.end() ? nullptr : found->second;
}
bool has_steps(const std::string& name) { return kRoundings.count(name) > 0; }

Scalar literal_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  if (text == "inf") return std::numeric_limits<Real>::infinity();
  if (text == "nan") return std::numeric_limits<Real>::quiet_NaN();
  if (text == "pi") return std::acos(Real{-1});
  char* end = nullptr;
  const Real value = std::strtold(text.c_str(), &end);
  return end != text.c_str() && *end == 0 ? Scalar(value) : std::nullopt;
}

}  // namespace opgen
