// Gradients that users may write, right and wrong ones, over Deckle's own ops: the wrong ones are refused, the right ones are
// not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

const std::string kRoot = kFolder + "/../..";

/// The messages of each entry, which begin at these lines.
std::vector<std::vector<std::string>> refusals(const std::vector<std::string>& entries) {
  const std::string path = ::testing::TempDir() + "gradients.yaml";
  std::ofstream file(path);
  std::vector<int> last_line;
  int line = 0;
  for (const std::string& entry : entries) {
    file << entry;
    line += static_cast<int>(std::count(entry.begin(), entry.end(), '\n'));
    last_line.push_back(line);
  }
  file.close();
  Inputs inputs;
  inputs.functions = {{kRoot + "/ops/functions.yaml", "functions.yaml"}};
  for (const auto& known : std::filesystem::directory_iterator(kRoot + "/ops")) {
    const std::string name = known.path().filename().string();
    if (known.path().extension() == ".yaml" && name != "functions.yaml" && name != "instances.yaml")
      inputs.known.push_back({known.path().string(), name});
  }
  inputs.entries = {{path, "gradients.yaml"}};
  Problems problems;
  analyze(inputs, false, problems);
  std::vector<std::vector<std::string>> found(entries.size());
  for (const std::string& problem : problems) {
    const size_t digits = problem.find(':') + 1;
    const int at = problem.rfind("gradients.yaml:", 0) == 0 ? std::stoi(problem.substr(digits)) : 0;
    const auto entry = std::lower_bound(last_line.begin(), last_line.end(), at) - last_line.begin();
    EXPECT_GT(at, 0) << problem;
    if (at > 0) found[static_cast<size_t>(entry)].push_back(problem);
  }
  return found;
}

std::vector<std::string> lines_of(const std::string& name) {
  std::vector<std::string> lines;
  std::ifstream file(kFolder + "/gradients/" + name);
  for (std::string line; std::getline(file, line);) {
    if (line[0] != '#') lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> native_entries(const std::vector<std::string>& formulas) {
  std::vector<std::string> entries;
  for (const std::string& formula : formulas)
    entries.push_back(fmt::format(
        "- func: op_{}(Tensor self, Tensor other, Tensor index, int n, bool flag) -> Tensor\n  doc: A test.\n  native: true\n"
        "  derivative: {{self: '{}', other: none, index: non_differentiable}}\n"
        "  samples: [{{self: [2, 3], other: [2, 3], index: {{values: [0, 1], dtype: int64}}, n: 2, flag: true}}]\n",
        entries.size(), formula));
  return entries;
}

TEST(Gradients, ThatAreNotLinearAreRefused) {
  const std::vector<std::string> formulas = lines_of("wrong.txt");
  ASSERT_GT(formulas.size(), 100U);
  const auto found = refusals(native_entries(formulas));
  for (size_t i = 0; i < formulas.size(); ++i) {
    EXPECT_EQ(found[i].size(), 1U) << formulas[i];
    for (const std::string& problem : found[i])
      EXPECT_NE(problem.find("the gradient of 'self' must be linear in grad"), std::string::npos)
          << formulas[i] << ": " << problem;
  }
}

TEST(Gradients, ThatAreLinearAreNot) {
  const std::vector<std::string> formulas = lines_of("right.txt");
  ASSERT_GT(formulas.size(), 70U);
  const auto found = refusals(native_entries(formulas));
  for (size_t i = 0; i < formulas.size(); ++i) {
    for (const std::string& problem : found[i]) ADD_FAILURE() << formulas[i] << ": " << problem;
  }
}

/// A pointwise body and its slopes.
struct Body {
  std::string formula, self, other;
};
const std::vector<Body> kBodies = {
    {"self * other", "other", "self"},
    {"self / other", "1 / other", "-self / other / other"},
    {"exp(self) * other", "result", "exp(self)"},
    {"sin(self) + other", "cos(self)", "1"},
    {"tanh(self * other)", "(1 - result * result) * other", "(1 - result * result) * self"},
    {"where(self > 0, self, exp(self) - 1) * other", "where(self > 0, 1, exp(self)) * other",
     "where(self > 0, self, exp(self) - 1)"},
    {"maximum(self, other)", "where(self > other, 1, 0)", "where(other > self, 1, 0)"},
    {"sqrt(self * self + other * other)", "self / result", "other / result"},
    {"self * self * self - other", "3 * self * self", "-1"},
    {"log(self * self + 1) * other", "2 * self / (self * self + 1) * other", "log(self * self + 1)"},
    {"sigmoid(self) * other", "sigmoid(self) * (1 - sigmoid(self)) * other", "sigmoid(self)"},
    {"erf(self) + cos(other)", "1.1283791670955126 * exp(-(self * self))", "-sin(other)"},
    {"atan2(self, other)", "other / (self * self + other * other)", "-self / (self * self + other * other)"},
    {"self * n + other", "n", "1"},
};

/// What may be wrong about a slope.
std::vector<std::string> mutations(const std::string& slope) {
  return {"2 * (" + slope + ")",
          "-(" + slope + ")",
          "(" + slope + ") * 1.001",
          "(" + slope + ") * (self + 2)",
          "(" + slope + ") + 0.01",
          "(" + slope + ") * (1 + other * other)",
          "where(self > 2, 0.5, 1) * (" + slope + ")"};
}

std::string pointwise_entry(size_t number, const Body& body, const std::string& self, const std::string& other) {
  return fmt::format(
      "- func: op_{}(Tensor self, Tensor other, int n) -> Tensor\n  doc: A test.\n  pointwise: '{}'\n"
      "  derivative: {{self: 'grad * ({})', other: 'grad * ({})'}}\n  samples: [{{self: [2, 3], other: [2, 3], n: 2}}]\n",
      number, body.formula, self, other);
}

TEST(Gradients, OfOtherFunctionsAreRefused) {
  std::vector<std::string> entries;
  std::vector<std::string> wrong;  // the input; "" of an entry that is right
  for (const Body& body : kBodies) {
    entries.push_back(pointwise_entry(entries.size(), body, body.self, body.other));
    wrong.emplace_back();
    for (const std::string& slope : mutations(body.self)) {
      entries.push_back(pointwise_entry(entries.size(), body, slope, body.other));
      wrong.emplace_back("self");
    }
    for (const std::string& slope : mutations(body.other)) {
      if (body.formula == "maximum(self, other)" && slope.rfind("where", 0) == 0) continue;  // differs where no point is drawn
      entries.push_back(pointwise_entry(entries.size(), body, body.self, slope));
      wrong.emplace_back("other");
    }
  }
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string said = found[i].empty() ? "" : found[i][0];
    if (wrong[i].empty())
      EXPECT_EQ(said, "") << entries[i];
    else
      EXPECT_NE(said.find("the gradient of '" + wrong[i] + "' is not the derivative of"), std::string::npos)
          << entries[i] << said;
  }
}

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
      {"Tensor self, Scalar low, Scalar high", "minimum(maximum(self, low), high)",
       "self: 'where(self > low && self < high, grad, 0)'", "self: [2], low: -2, high: 0.5"},
  };
  const std::vector<std::string> entries = entries_of(right);
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(found[i], Problems()) << entries[i];
}

/// Native ops of two tensors and plain arguments: formulas for `other` and for the result.
std::vector<std::string> entries_in_both_modes(const std::vector<std::array<std::string, 3>>& formulas) {
  std::vector<std::string> entries;
  for (const auto& [self, other, result] : formulas)
    entries.push_back(fmt::format(
        "- func: op_{}(Tensor self, Tensor other, int a, int b, int c, Scalar p, bool[] f) -> Tensor\n  doc: A test.\n"
        "  native: true\n  derivative: {{self: '{}', other: '{}', result: '{}'}}\n"
        "  samples: [{{self: [2], other: [2], a: 1, b: 2, c: 3, p: 0.2, f: [true]}}]\n",
        entries.size(), self, other, result));
  return entries;
}

TEST(Conditions, InWhichTheModesDifferAreRefused) {
  std::string many = "grad";
  for (int i = 1; i < 9; ++i) many += fmt::format(" * (a == {} && b == {} && c > {} ? 2 : 1)", i, i, i);
  const std::vector<std::string> entries = entries_in_both_modes({
      {"grad", "(a + b) * c > 0 ? grad : none", "a + b * c > 0 ? self_t + other_t : self_t"},
      {"grad", "p > 0 && p < 0.5 ? grad : none", "self_t"},
      {"grad", "a < b ? grad : none", "b < a ? self_t + other_t : self_t"},
      {many, "p > 2 ? grad : none", "self_t"},
      {"grad", "floating(self.dtype()) ? grad : none", "self_t + other_t"},
      {"grad", "self.dtype() == float32 ? grad : none", "self.dtype() == float16 ? self_t + other_t : self_t"},
      {"grad", "self.dtype() == other.dtype() ? grad : none", "self.dtype() == float32 ? self_t + other_t : self_t"},
  });
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(found[i].size(), 1U) << entries[i];
}

TEST(Conditions, ThatCannotBeOrAreTheSameInOtherWordsAreNot) {
  std::string lets = "let a0 = a";
  for (int i = 1; i < 40; ++i) lets += fmt::format(", a{0} = a{1} + a{1}", i, i - 1);
  const std::vector<std::string> entries = entries_in_both_modes({
      {"grad", "a < b ? grad : none", "b > a ? self_t + other_t : self_t"},
      {"grad", "a < b ? grad : none", "a >= b ? self_t : self_t + other_t"},
      {"grad", "self.size(0) >= 0 ? grad : none", "self_t + other_t"},
      {"grad", "self.dtype() == float32 || self.dtype() == float64 ? grad : none",
       "self.dtype() != float32 && self.dtype() != float64 ? self_t : self_t + other_t"},
      {"self.dtype() == int64 ? none : grad", "grad", "self_t + other_t"},
      {"grad", "floating(self.dtype()) && self.dtype() == int64 ? none : grad", "self_t + other_t"},
      {"grad", "self.dtype() == other.dtype() && self.dtype() == float32 && other.dtype() == float64 ? none : grad",
       "self_t + other_t"},
      {"grad", "a > 0 && a < 1 ? none : grad", "self_t + other_t"},
      {"grad", lets + " in a39 > 3 ? grad : none", lets + " in a39 > 3 ? self_t + other_t : self_t"},
  });
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(found[i], Problems()) << entries[i];
}

TEST(Claims, OfCompositesThatCallEachOtherAreReadOnce) {
  std::vector<std::string> entries;
  for (int level = 0; level < 40; ++level) {
    for (const char* name : {"one", "two"})
      entries.push_back(fmt::format(
          "- func: {}_{}(Tensor self) -> Tensor\n  doc: A test.\n  composite: {{cpp: true, calls: [{}]}}\n{}"
          "  samples: [{{self: [2]}}]\n",
          name, level, level == 0 ? "sin" : fmt::format("one_{0}, two_{0}", level - 1), level == 39 ? "  linear: self\n" : ""));
  }
  const auto found = refusals(entries);
  for (size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(found[i].size(), i + 2 < entries.size() ? 0U : 1U) << entries[i];
}

TEST(Claims, OfSeventyTensorsAreReadToTheLast) {
  std::string arguments = "Tensor t0", formulas = "t0: grad", values = "t0: [2]";
  for (int i = 1; i < 70; ++i) {
    arguments += fmt::format(", Tensor t{}", i);
    formulas += fmt::format(", t{}: grad", i);
    values += fmt::format(", t{}: [2]", i);
  }
  const std::string rest = "-> Tensor\n  doc: A test.\n";
  const auto found = refusals({fmt::format("- func: sum_of_all({}) {}  native: true\n  derivative: {{{}}}\n  samples: [{{{}}}]\n",
                                           arguments, rest, formulas, values),
                               fmt::format("- func: f(Tensor self) {}  composite: {{cpp: true, calls: [sum_of_all]}}\n  linear: "
                                           "self\n  samples: [{{self: [2]}}]\n",
                                           rest)});
  for (const Problems& problems : found) EXPECT_EQ(problems, Problems());
}

}  // namespace
}  // namespace opgen::testing
