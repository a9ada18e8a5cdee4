// What conditions and calls show of an op: that both modes agree, and that claims hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/opgen/refusals.h"

namespace opgen::testing {
namespace {

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
          "- func: {}_{}(Tensor self) -> Tensor\n  doc: A test.\n  composite: {{cpp: true, calls: [{}], because: a test}}\n{}"
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
  const auto found = refusals(
      {fmt::format("- func: sum_of_all({}) {}  native: true\n  derivative: {{{}}}\n  samples: [{{{}}}]\n", arguments, rest,
                   formulas, values),
       fmt::format("- func: f(Tensor self) {}  composite: {{cpp: true, calls: [sum_of_all], because: a test}}\n  linear: "
                   "self\n  samples: [{{self: [2]}}]\n",
                   rest)});
  for (const Problems& problems : found) EXPECT_EQ(problems, Problems());
}

}  // namespace
}  // namespace opgen::testing
