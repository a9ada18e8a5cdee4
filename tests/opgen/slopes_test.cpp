// Scalar functions as the generator evaluates them, and the derivatives that functions.yaml gives them.
#include <gtest/gtest.h>

#include <cmath>

#include "opgen/analyze/computation.h"
#include "opgen/readers/entries/load.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

TEST(Scalars, HaveTheDerivativesOfFunctionsYaml) {
  Library library;
  Problems problems;
  load_functions(kFolder + "/../../ops/functions.yaml", "functions.yaml", library, problems);
  ASSERT_EQ(problems, Problems());
  int compared = 0;
  for (const auto& [name, function] : library.functions) {
    if (function.bits) continue;
    std::vector<ExprPtr> parameters;
    for (const std::string& parameter : function.parameters) parameters.push_back(make_expr(Expr::Kind::name, parameter, {}));
    const ExprPtr call = make_expr(Expr::Kind::call, name, parameters);
    for (const long double first : {0.3L, 0.71L, 1.4L}) {
      std::vector<long double> point = {first, 0.83L * first + 0.3L, 1.1L};
      const auto at = [&](const ExprPtr& expr, Scalar result = {}) {
        const auto place = [&](const std::string& wanted) -> std::optional<size_t> {
          if (wanted == "r") return point.size();  // functions of x, y and their power
          for (size_t i = 0; i < function.parameters.size(); ++i) {
            if (function.parameters[i] == wanted) return i;
          }
          return wanted == "result" ? std::optional(point.size() + 1) : std::nullopt;
        };
        std::vector<Scalar> values(point.begin(), point.end());
        values.insert(values.end(), {std::pow(point[0], point[1]), result});
        return Computation(expr, place, library.functions).at(values);
      };
      ASSERT_TRUE(at(call)) << name << " has no value in opgen/analyze/scalars.cpp";
      for (size_t i = 0; i < function.derivatives.size(); ++i) {
        if (!function.derivatives[i] || function.parameters[i] == "r") continue;
        const Scalar slope = at(function.derivatives[i], at(call));
        ASSERT_TRUE(slope) << name;
        const long double step = 1e-5L, middle = point[i];
        point[i] = middle + step;
        const long double above = *at(call);
        point[i] = middle - step;
        const long double below = *at(call);
        point[i] = middle;
        const auto expected = static_cast<double>((above - below) / (2 * step));
        EXPECT_NEAR(static_cast<double>(*slope), expected, 1e-7 * (1 + std::fabs(expected)))
            << name << " by " << function.parameters[i] << " at " << static_cast<double>(first);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace opgen::testing
