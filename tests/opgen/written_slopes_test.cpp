// Derivatives written for pointwise ops: those of other functions are refused however they are written and wherever they differ.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/opgen/refusals.h"

namespace opgen::testing {
namespace {

/// Arguments, an expression of them, what `derivative:` says, and values of a sample.
struct Written {
  std::string arguments, formula, derivative, sample;
};

std::vector<std::string> entries_of(const std::vector<Written>& all) {
  std::vector<std::string> entries;
  for (const Written& one : all)
    entries.push_back(
        fmt::format("- func: op_{}({}) -> Tensor\n  doc: A test.\n  pointwise: '{}'\n  derivative: {{{}}}\n  samples: [{{{}}}]\n",
                    entries.size(), one.arguments, one.formula, one.derivative, one.sample));
  return entries;
}

TEST(Gradients, OfOtherFunctionsAreRefusedHoweverTheyAreWritten) {
  const std::string two = "Tensor self, Tensor other", sample = "self: [2], other: [2]";
  const std::string self = "sum_to(grad * other, self.sizes())", other = "sum_to(grad * self, other.sizes())";
  const std::string swapped = "sum_to(grad * other, other.sizes())";
  const std::vector<Written> wrong = {
      {two, "self * other", fmt::format("'self, other': '({}, {})'", self, swapped), sample},
      {two, "self * other", fmt::format("'other, self': '({}, {})'", swapped, self), sample},
      {two, "self * other", fmt::format("'self, other': 'let both = ({}, {}) in both'", self, swapped), sample},
      {two, "self * other", fmt::format("self: '{}', other: none", self), sample},
      {"Tensor self, int n", "where(n == 2, self, 2 * self)",
       "self: [{when: \"quotient(n, 2) == 1\", is: grad}, {otherwise: 2 * grad}]", "self: [2], n: 4"},
      {"Tensor self", "round(self * 100000) / 100000", "self: grad", "self: [2]"},
      {"Tensor self", "where(self > 50, 2 * self, self)", "self: grad", "self: [2]"},
      {"Tensor self", "where(self < -30.5, -self, self)", "self: grad", "self: [2]"},
      {"Tensor self, int n", "where(n == 0, 2 * self, self)", "self: grad", "self: [2], n: 4"},
      {"Tensor self, int n", "where(n < 0, 2 * self, self)", "self: grad", "self: [2], n: 4"},
      {"Tensor self, int n", "where(n == 17, 2 * self, self)", "self: grad", "self: [2], n: 17"},
      {"Tensor self, Scalar by", "where(by > 100, 2 * self, self)", "self: grad", "self: [2], by: 200"},
      {"Tensor self, Scalar by", "by * self", "self: 200 * grad", "self: [2], by: 200"},
  };
  const std::vector<std::string> entries = entries_of(wrong);
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(found[i].size(), 1U) << entries[i];
    EXPECT_NE(found[i][0].find("is not the derivative of"), std::string::npos) << found[i][0];
  }
}

TEST(Gradients, OfOtherFunctionsAreRefusedWhereverTheyDiffer) {
  const std::string two = "Tensor self, Tensor other", sample = "self: [2], other: [2]";
  const std::string none = "other: none", one = "Tensor self", s = "self: [2]";
  const std::vector<Written> wrong = {
      // Where conditions of the expression hold together.
      {two, "where(self > 3 && other > self, 2 * self, self)", "self: 'sum_to(grad, self.sizes())', " + none, sample},
      {two, "where(self > 3, where(other > self, 2 * self, self), self)", "self: 'sum_to(grad, self.sizes())', " + none, sample},
      {two, "where(self > 40 && other < -50, 2 * self, self)", "self: 'sum_to(grad, self.sizes())', " + none, sample},
      {two, "where(self * other > 500 && self < 0, 2 * self, self)", "self: 'sum_to(grad, self.sizes())', " + none, sample},
      {two, "where(exp(self) > 1e6 + other * other, 2 * self, self)", "self: 'sum_to(grad, self.sizes())', " + none, sample},
      {two, "maximum(self, other * other * 30 + 70)",
       "self: 'zeros_like(self)', other: 'sum_to(grad * other * 60, other.sizes())'", sample},
      {two, "abs(self - other * other * 30 - 70)",
       "self: 'sum_to(-grad, self.sizes())', other: 'sum_to(grad * other * 60, other.sizes())'", sample},
      {"Tensor self, bool b", "where(b != 0, self, 2 * self)", "self: grad", "self: [2], b: true"},
      {"Tensor self, bool b", "where(b != 0, self, 2 * self)", "self: grad * 2", "self: [2], b: true"},
      {"Tensor self, bool a, bool b, bool c", "where(a != 0 && b == 0 && c != 0, self, 2 * self)", "self: grad * 2",
       "self: [2], a: true, b: true, c: true"},
      {"Tensor self, int n", "where(n > 1000 && self > 2, 2 * self, self)", "self: grad", "self: [2], n: 4"},
      {"Tensor self, int n", "where(n == 77 && self > 2, 2 * self, self)", "self: grad", "self: [2], n: 4"},
      {"Tensor self, Scalar by", "where(self > 90 * by, 2 * self, self)", "self: grad", "self: [2], by: 2"},
      {"Tensor self, Scalar by", "where(by > 100, 2 * self, self)", "self: 2 * grad", "self: [2], by: 200"},
      // Between bounds, however close; and by little.
      {"Tensor self", "where(self > 0.4999 && self < 0.5001, 3 * self, self)", "self: grad", "self: [2]"},
      {"Tensor self", "sin(self)", "self: grad * 1.000001 * cos(self)", "self: [2]"},
      {"Tensor self", "sin(self)", "self: grad * (cos(self) + 0.000001)", "self: [2]"},
      // Where numbers are not what the sample has as 0, or what the formula asks for.
      {"Tensor self, Scalar p", "self * (1 + p)", "self: grad", "self: [2], p: 0"},
      {"Tensor self, float p=0, float q=3", "self * q + self * p", "self: grad * q", "self: [2]"},
      {"Tensor self, Scalar p", "self * p", "self: 'p == 2 ? 5 * grad : grad * p'", "self: [2], p: 3"},
      {"Tensor self, Scalar p", "self * p", "self: 'p != 2 ? grad * p : 5 * grad'", "self: [2], p: 3"},
      {"Tensor self, Scalar p", "self * p", "self: [{when: p == 7.25, is: 5 * grad}, {otherwise: grad * p}]", "self: [2], p: 3"},
      {"Tensor self, float p=2", "pow(self, p)", "self: 'p == 2 ? grad * self : grad * p * pow(self, p - 1)'",
       "self: {shape: [2], low: 1, high: 2}"},
      {"Tensor self, float p, float q", "self * p * q", "self: 'p == q ? grad : grad * p * q'", "self: [2], p: 3, q: 4"},
      {"Tensor self, float p", "self * p", "self: 'p * 4 == 1 ? grad : grad * p'", "self: [2], p: 0.25"},
      // Where equations hold all along, and steps are far.
      {one, "exp(self * 0.001)", "self: 'where(floor(self / 10) == 40, 5 * grad, 0.001 * grad * result)'", s},
      {one, "exp(self * 0.001)", "self: 'where(sign(self * 0.01 - 1) == 1, 5 * grad, 0.001 * grad * result)'", s},
      {one, "self * 3", "self: 'where(isfinite(exp(exp(self))), 3 * grad, 5 * grad)'", s},
      {one, "self * 3", "self: '3 * grad + grad * floor(abs(self) * 0.01)'", s},
      // At the single point that a guard selects.
      {one, "self * sin(self)", "self: 'grad * (sin(self) + self * cos(self)) + where(self == 3, grad, 0)'", s},
      {one, "where(self == 0, 1, sin(self) / self)",
       "self: 'where(self == 0, grad, grad * (cos(self) * self - sin(self)) / (self * self))'", s},
      {two, "self * other",
       "self: 'sum_to(where(self == other, 0, grad * other), self.sizes())', other: 'sum_to(grad * self, other.sizes())'",
       sample},
      // Where samples are.
      {one, "log(self * 0.01 - 1)", "self: grad", "self: {shape: [3], low: 150, high: 200}"},
      {one, "self * 1e-14", "self: 'grad * 3e-14'", s},
      // Where conditions of the formula alone hold.
      {one, "self * self", "self: 'where(self > 40, grad, 2 * grad * self)'", s},
      {two, "self + other",
       "self: 'sum_to(where(self > 30, where(other > 2 * self, 2 * grad, grad), grad), self.sizes())', other: 'sum_to(grad, "
       "other.sizes())'",
       sample},
      {two, "self + other",
       "'self, other': 'let g = where(logical_and(self > 30, other > 2 * self), 2 * grad, grad) in (sum_to(g, self.sizes()), "
       "sum_to(grad, other.sizes()))'",
       sample},
      {"Tensor self, int n", "self * n", "self: 'n > 500 ? grad : grad * n'", "self: [2], n: 4"},
      {"Tensor self, int n", "self * n", "self: [{when: n > 500 && n < 600, is: grad}, {otherwise: grad * n}]",
       "self: [2], n: 4"},
      {"Tensor self, Scalar by", "self * by", "self: 'by > 50 ? grad : grad * by'", "self: [2], by: 4"},
      // Where sizes and dtypes are so.
      {one, "self * 3", "self: 'self.dim() == 2 ? grad : grad * 3'", s},
      {one, "self * 3", "self: 'self.dim() == 2 ? grad * 3 : grad'", s},
      {one, "self * 3", "self: 'self.size(-1) > 64 ? grad : grad * 3'", s},
      {one, "self * 3", "self: 'self.numel() < 2 ? grad : grad * 3'", s},
      {one, "self * 3", "self: [{when: self.dtype() == float16, is: grad}, {otherwise: grad * 3}]", s},
      {one, "self * 3", "self: [{when: floating(self.dtype()), is: grad}, {otherwise: grad * 3}]", s},
      {one, "self * 3", "self: 'let far = self.dim() > 4 in far ? grad : grad * 3'", s},
      {one, "self * 3", "self: 'self.is_contiguous() ? grad * 3 : grad'", s},
      {one, "self * 3", "self: 'grad.defined() ? grad * 2 : grad * 3'", s},
      {two, "self * other",
       "self: 'self.sizes() == other.sizes() ? sum_to(grad * other, self.sizes()) : sum_to(grad, self.sizes())', other: "
       "'sum_to(grad * self, "
       "other.sizes())'",
       sample},
      {two, "self * other",
       "self: 'self.dtype() == other.dtype() ? sum_to(grad * other, self.sizes()) : sum_to(grad, self.sizes())', other: "
       "'sum_to(grad * self, other.sizes())'",
       sample},
      {"Tensor self, Scalar by", "self * by", "self: 'by.dtype() == int64 ? grad : grad * by'", "self: [2], by: 4"},
      {one, "self * 3", "self: grad * 3, result: 'self_p.dim() == 3 ? self_t : self_t * 3'", s},
      // Where other inputs have derivatives too.
      {two, "self * other",
       "self: 'wants(other) ? sum_to(grad * other, self.sizes()) : sum_to(grad, self.sizes())', other: 'sum_to(grad * self, "
       "other.sizes())'",
       sample},
      {two, "self * other",
       "self: 'sum_to(grad * other, self.sizes())', other: 'sum_to(grad * self, other.sizes())', result: 'has_t(other) ? self_t "
       "* 2 + "
       "self_p * other_t : self_t * other_p'",
       sample},
  };
  const std::vector<std::string> entries = entries_of(wrong);
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(found[i].size(), 1U) << entries[i];
    EXPECT_NE(found[i][0].find("is not the derivative of"), std::string::npos) << found[i][0];
  }
}

TEST(Gradients, ThatAreSaidNotToBeThereAreHeldAgainstTheExpression) {
  const std::string sample = "  samples: [{self: [2], other: [2]}]\n";
  const auto entry = [&](int i, const std::string& formula, const std::string& derivative) {
    return fmt::format(
        "- func: op_{}(Tensor self, Tensor other) -> Tensor\n  doc: A test.\n  pointwise: {}\n  derivative: {}\n{}", i, formula,
        derivative, sample);
  };
  const std::string of_self = "{self: 'sum_to(grad, self.sizes())', other: non_differentiable}";
  const std::vector<std::string> wrong = {
      entry(0, "self + other", "non_differentiable"),
      entry(1, "self + 0.001 * other", of_self),
      entry(2, "where(self > 30 && other > self, other, self)",
            "{self: 'sum_to(where(logical_and(self > 30, other > self), 0, grad), self.sizes())', other: non_differentiable}"),
      entry(3, "self + maximum(other, 500)", of_self),
      entry(4, "floor(self) + floor(other) + where(self * other < -300, other, 0)", "non_differentiable"),
  };
  for (const Problems& problems : refusals(wrong)) {
    ASSERT_EQ(problems.size(), 1U);
    EXPECT_NE(problems[0].find("is said to have no derivative"), std::string::npos) << problems[0];
  }
  const std::vector<std::string> right = {
      entry(0, "floor(self) + sign(other)", "non_differentiable"),
      entry(1, "self + where(other > 3, 1, 0)", of_self),
      entry(2, "self == other", "non_differentiable"),
      entry(3, "where(isnan(self), 1, 0) + round(other)", "non_differentiable"),
      entry(4, "self + other", "non_differentiable") + "  tests: {gradients: false, because: a test}\n",
  };
  for (const Problems& problems : refusals(right)) EXPECT_EQ(problems, Problems());
}

TEST(Gradients, OfOtherElementsAreRefused) {
  const std::vector<std::string> formulas = {"flip(grad, [0]) * result",
                                             "cumsum(grad * result, 0)",
                                             "mean(grad * result) * ones_like(self)",
                                             "grad * result * sum(self) / sum(self)",
                                             "sum_to(grad, [1]) * result",
                                             "grad * detach(result)",
                                             "let g = grad * result in squeeze(unsqueeze(g, 0), 0)"};
  std::vector<Written> wrong;
  for (const std::string& formula : formulas)
    wrong.push_back({"Tensor self", "exp(self)", fmt::format("self: '{}'", formula), "self: [2]"});
  wrong.push_back({"Tensor self", "exp(self)", "self: grad * result, result: 'flip(self_t, [0]) * result'", "self: [2]"});
  const std::vector<std::string> entries = entries_of(wrong);
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(found[i].size(), 1U) << entries[i];
    EXPECT_NE(found[i][0].find("and 'op_" + std::to_string(i) + "' is pointwise: its derivatives call"), std::string::npos)
        << found[i][0];
  }
}

TEST(Gradients, ThatNoPointReachesAreRefused) {
  const std::vector<Written> unreached = {
      {"Tensor self", "self * 2", "self: 'where(self * self < -1, grad, grad * 2)'", "self: [2]"},
      {"Tensor self", "where(sin(self) > 2, self, self * 2)", "self: 'grad * 2'", "self: [2]"},
      {"Tensor self, int n", "self * 2", "self: 'n > 5 && n < 4 ? grad : grad * 2'", "self: [2], n: 4"},
  };
  const std::vector<std::string> entries = entries_of(unreached);
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(found[i].size(), 1U) << entries[i];
    EXPECT_NE(found[i][0].find("no point was found at which"), std::string::npos) << found[i][0];
  }
}

/// Of ten kilobytes, which readers get through in a second.
TEST(Gradients, OfExpressionsWithHundredsOfConditionsAreRefusedInTime) {
  std::vector<std::string> terms;
  const std::array<const char*, 3> names = {"self", "other", "third"};
  for (int i = 0; i < 512; ++i) terms.push_back(fmt::format("abs({}-{})", names[i % 3], i * 977));
  while (terms.size() > 1) {
    std::vector<std::string> sums;
    for (size_t i = 0; i < terms.size(); i += 2) sums.push_back("(" + terms[i] + "+" + terms[i + 1] + ")");
    terms = sums;
  }
  const auto found = refusals({fmt::format(
      "- func: f(Tensor self, Tensor other, Tensor third) -> Tensor\n  doc: A test.\n  pointwise: '{}'\n"
      "  derivative: {{self: 'sum_to(grad * full(self.sizes(), 1), self.sizes())', other: 'sum_to(grad * full(other.sizes(), 1), "
      "other.sizes())', "
      "third: 'sum_to(grad * full(third.sizes(), 1), third.sizes())'}}\n  samples: [{{self: [2], other: [2], third: [2]}}]\n",
      terms[0])});
  ASSERT_EQ(found[0].size(), 1U);
  EXPECT_NE(found[0][0].find("'f' has more conditions than derivatives can be compared for: make it of several ops"),
            std::string::npos)
      << found[0][0];
}

TEST(Gradients, OfTheExpressionAreNotRefusedHoweverTheyAreWritten) {
  const std::string two = "Tensor self, Tensor other", sample = "self: [2], other: [2]";
  const std::string self = "sum_to(grad * other, self.sizes())", other = "sum_to(grad * self, other.sizes())";
  const std::vector<Written> right = {
      {two, "self * other", fmt::format("'self, other': '({}, {})'", self, other), sample},
      {two, "self * other", fmt::format("'other, self': 'let both = ({}, {}) in both'", other, self), sample},
      {two, "self + where(other > 0, 1, 0)", "self: 'sum_to(grad, self.sizes())', other: none", sample},
      {"Tensor self, int n", "where(n == 3, self, 2 * self)",
       "self: [{when: \"quotient(n, 2) == 1 && n % 2 == 1\", is: grad}, {otherwise: 2 * grad}]", "self: [2], n: 4"},
      {"Tensor self", "round(self * 100000) / 100000", "self: zeros_like(self)", "self: [2]"},
      {two, "where(self > 3 && other > self, 2 * self, self)",
       "self: 'sum_to(where(logical_and(self > 3, other > self), 2 * grad, grad), self.sizes())', other: none", sample},
      {"Tensor self", "self * 3", "self: 'self.dim() == 2 ? grad * 3 : 3 * grad'", "self: [2]"},
      {two, "self * other",
       "self: 'sum_to(grad * other, self.sizes())', other: 'wants(self) ? sum_to(grad * self, other.sizes()) : sum_to(self * "
       "grad, "
       "other.sizes())', result: 'has_t(other) ? self_t * other_p + self_p * other_t : self_t * other_p'",
       sample},
      {"Tensor self", "self * 3", "self: 'self.numel() == 0 ? zeros_like(self) : grad * 3'", "self: [2]"},
      {"Tensor self", "self * 3", "self: 'floating(self.dtype()) ? grad * 3 : none'", "self: [2]"},
      {"Tensor self", "self * 3", "self: 'self.dtype() == int64 ? none : grad * 3'", "self: [2]"},
      {"Tensor self", "where(self == 0, 1, sin(self) / self)",
       "self: 'where(self == 0, 0, grad * (cos(self) * self - sin(self)) / (self * self))'", "self: [2]"},
      {"Tensor self", "where(isnan(self), 0, self * 2)", "self: 'where(isnan(self), 0, grad * 2)'", "self: [2]"},
      {"Tensor self, Scalar low", "where(self > low && self < low + 0.001, 2 * self, self)",
       "self: 'where(logical_and(self > low, self < low + 0.001), 2 * grad, grad)'", "self: [2], low: 3"},
      {"Tensor self", "fmod(self, 0.00001)", "self: grad", "self: [2]"},
      {"Tensor self", "abs(self - 0.5) + maximum(self, 50)", "self: 'grad * (where(self > 0.5, 1, -1) + where(self > 50, 1, 0))'",
       "self: [2]"},
      {"Tensor self, Scalar a", "where(self > 0, self, a * (exp(self) - 1))", "self: 'grad * where(result > 0, 1, result + a)'",
       "self: [2], a: 0.8"},
      {two, "self + other",
       "'self, other': '(wants(self) ? sum_to(grad, self.sizes()) : none, sum_to(to(grad, other.dtype()), "
       "other.sizes()))'",
       sample},
      {"Tensor self", "abs(self)", "self: 'where(self == 0, 0, grad * sign(self))'", "self: [2]"},
      {"Tensor self", "where(self > 2, self, 2)", "self: 'where(self == 2, grad, where(self > 2, grad, 0))'", "self: [2]"},
      {"Tensor self, float p", "pow(self, p)", "self: 'p == 0 ? zeros_like(self) : grad * p * pow(self, p - 1)'",
       "self: {shape: [2], low: 1, high: 2}, p: 0"},
      {"Tensor self, Scalar low, Scalar high", "minimum(maximum(self, low), high)",
       "self: 'where(self > low && self < high, grad, 0)'", "self: [2], low: -2, high: 0.5"},
  };
  const std::vector<std::string> entries = entries_of(right);
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(found[i], Problems()) << entries[i];
}

}  // namespace
}  // namespace opgen::testing
