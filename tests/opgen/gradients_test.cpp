// Gradients that users may write, right and wrong ones, over Deckle's own ops: the wrong ones are refused, the right ones are
// not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/opgen/refusals.h"

namespace opgen::testing {
namespace {

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
    {"lerp(self, other, 0.25)", "0.75", "0.25"},
    {"lerp(self, other, sin(self))", "1 - sin(self) + (other - self) * cos(self)", "sin(self)"},
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

}  // namespace
}  // namespace opgen::testing
