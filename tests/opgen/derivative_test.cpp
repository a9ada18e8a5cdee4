// Symbolic derivatives: their form, their value against differences, and their limits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "opgen/derive/algebra.h"
#include "opgen/derive/calculus.h"
#include "opgen/derive/limits.h"
#include "opgen/derive/rules.h"
#include "opgen/readers/entries/load.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

Library functions() {
  Library library;
  Problems problems;
  load_functions(kFolder + "/functions.yaml", "functions.yaml", library, problems);
  EXPECT_TRUE(problems.empty());
  return library;
}

std::string slope(const std::string& text) { return to_string(differentiate(algebra::simplify(parse(text)), "x", functions())); }

TEST(Derivative, IsSimplified) {
  EXPECT_EQ(slope("x * 3 + 4"), "3");
  EXPECT_EQ(slope("x * x"), "2 * x");
  EXPECT_EQ(slope("y * y"), "0");
  EXPECT_EQ(slope("exp(-x)"), "-exp(-x)");
  EXPECT_EQ(slope("x * sigmoid(x)"), "sigmoid(x) + x * (sigmoid(x) * (1 - sigmoid(x)))");
  EXPECT_EQ(slope("where(x > 0, x, 0)"), "where(x > 0, 1, 0)");
  EXPECT_EQ(slope("y / x"), "-(y / x / x)") << "x * x may underflow";
  EXPECT_EQ(slope("2 * x + x"), "3");
  EXPECT_EQ(slope("x / 4"), "0.25");
  EXPECT_EQ(slope("x / 3"), "1.0 / 3") << "a gradient is divided by 3, not multiplied by a rounded third";
  EXPECT_EQ(to_string(algebra::simplify(parse("y * (2 / x)"))), "2 * (y / x)") << "2 / x may overflow";
  EXPECT_EQ(to_string(algebra::simplify(parse("y * (0.4 / x)"))), "0.4 * y / x") << "y / x may overflow first";
  EXPECT_EQ(to_string(algebra::simplify(parse("where(y > 0, y, 0) * (2 / x)"))), "where(y > 0, 2 * (y / x), 0)") << "not 0 / 0";
  EXPECT_EQ(to_string(algebra::simplify(parse("where(y > 0, y, 0) * (1 / x)"))), "where(y > 0, y / x, 0)");
}

TEST(Derivative, KeepsFactorsThatTogetherOverflowOrVanish) {
  EXPECT_EQ(slope("1e200 * (1e200 * x)"), "1e+200 * 1e+200") << "C++ has no literal for their product";
  EXPECT_EQ(slope("1e-200 * (1e-200 * x)"), "1e-200 * 1e-200") << "which is not 0 times an incoming 1e300";
  EXPECT_EQ(slope("x * (1e300 / 1e-300)"), "1e+300 / 1e-300");
  EXPECT_EQ(slope("x * (1e-300 / 1e300)"), "1e-300 / 1e+300");
  EXPECT_EQ(slope("1e308 * x + 1e308 * x"), "2 * 1e+308");
  EXPECT_EQ(slope("9007199254740993 * 3 * x"), "9007199254740993 * 3") << "a double would round it";
  EXPECT_EQ(slope("-(9007199254740993 * x)"), "-9007199254740993");
}

TEST(Numbers, AreFoldedAndNothingElseOfWhatIsWritten) {
  const auto folded = [](const char* text) { return to_string(algebra::fold_numbers(parse(text))); };
  EXPECT_EQ(folded("x * 0 + x / 3"), "x * 0 + x / 3");
  EXPECT_EQ(folded("x * (2 * 3 - 1) + 1 / 4"), "x * 5 + 0.25");
  EXPECT_EQ(folded("x * 1 - -x"), "x * 1 - -x");
  EXPECT_EQ(folded("x > 0 ? x : 2.0"), "where(x > 0, x, 2)");
}

/// The value of an expression, in double.
double value(const ExprPtr& expr, const std::map<std::string, double>& names) {
  const auto arg = [&](size_t i) { return value(expr->args[i], names); };
  switch (expr->kind) {
    case Expr::Kind::number:
      return std::stod(expr->text);
    case Expr::Kind::name:
      return names.at(expr->text);
    case Expr::Kind::unary:
      return expr->text == "-" ? -arg(0) : !arg(0);
    case Expr::Kind::binary:
      if (expr->text == "+") return arg(0) + arg(1);
      if (expr->text == "-") return arg(0) - arg(1);
      if (expr->text == "*") return arg(0) * arg(1);
      if (expr->text == "/") return arg(0) / arg(1);
      if (expr->text == ">") return arg(0) > arg(1);
      break;
    case Expr::Kind::call:
      if (expr->text == "exp") return std::exp(arg(0));
      if (expr->text == "tanh") return std::tanh(arg(0));
      if (expr->text == "sigmoid") return 1 / (1 + std::exp(-arg(0)));
      if (expr->text == "sin") return std::sin(arg(0));
      if (expr->text == "cos") return std::cos(arg(0));
      if (expr->text == "maximum") return std::max(arg(0), arg(1));
      if (expr->text == "where") return arg(0) != 0 ? arg(1) : arg(2);
      if (expr->text == "damped") return arg(0) == 0 ? 0 : arg(0) * arg(1);
      break;
    default:
      break;
  }
  throw std::runtime_error("no value for " + to_string(expr));
}

TEST(Derivative, EqualsDifferencesToThirdOrder) {
  const Library library = functions();
  for (const char* text : {"x * sigmoid(x)", "tanh(x * y) / (1 + x * x)", "exp(-(x * x)) * sin(3 * x)",
                           "where(x > 0.2, x * x * x, cos(x))", "maximum(x, 0.3) * exp(x)",
                           "0.5 * x * (1 + tanh(0.79 * (x + 0.044 * x * x * x)))", "(x - y) / (x + 3)", "-x * -y * 2 * x"}) {
    ExprPtr f = algebra::simplify(parse(text));
    for (int order = 1; order <= 3; ++order) {
      const ExprPtr df = differentiate(f, "x", library);
      for (const double x : {-0.9, 0.1, 0.7, 1.6}) {
        const double h = 1e-5;
        const double expected = (value(f, {{"x", x + h}, {"y", 0.4}}) - value(f, {{"x", x - h}, {"y", 0.4}})) / (2 * h);
        EXPECT_NEAR(value(df, {{"x", x}, {"y", 0.4}}), expected, 1e-6 * (1 + std::abs(expected)))
            << "order " << order << " of " << text << " at " << x;
        EXPECT_NEAR(value(protect_limits(df, library), {{"x", x}, {"y", 0.4}}), expected, 1e-6 * (1 + std::abs(expected)));
      }
      f = df;
    }
  }
}

TEST(Derivative, HasTheRightLimits) {
  const Library library = functions();
  const double inf = std::numeric_limits<double>::infinity();
  const ExprPtr silu = parse("x * sigmoid(x)"), first = differentiate(silu, "x", library),
                second = differentiate(first, "x", library);
  const auto at = [&](const ExprPtr& f, double x) { return value(protect_limits(f, library), {{"x", x}}); };
  EXPECT_EQ(at(silu, -inf), 0);
  EXPECT_EQ(at(silu, inf), inf);
  EXPECT_EQ(at(first, -inf), 0);
  EXPECT_EQ(at(first, inf), 1);
  EXPECT_EQ(at(second, -inf), 0);
  EXPECT_EQ(at(second, inf), 0);
  EXPECT_TRUE(std::isnan(at(first, std::nan(""))));
}

TEST(Rules, TheCheaperFormIsChosen) {
  Outcome outcome = compile_file(kFolder + "/golden/forms.yaml", "forms.yaml");
  ASSERT_EQ(outcome.problems, Problems());
  const std::string source = outcome.files.at("deckle/ops/generated/forms_0.cpp");
  EXPECT_NE(source.find("logistic_backward(grad, result.get(*this))"), std::string::npos) << "by its result";
  EXPECT_NE(source.find("swish_backward(grad, self.get(*this))"), std::string::npos) << "by its input";
  EXPECT_NE(source.find("sink.put(0, grad * result.get(*this))"), std::string::npos) << "one public op needs no kernel";
  EXPECT_EQ(source.find("Tensor exponential_backward("), std::string::npos);
  EXPECT_NE(source.find("Tensor swish_backward_backward("), std::string::npos) << "the second derivative is fused";
  EXPECT_EQ(source.find("Tensor swish_backward_backward_backward("), std::string::npos) << "the third is composed";
}

}  // namespace
}  // namespace opgen::testing
