// Formulas as LaTeX, and ops as JSON: what the reference site is made from.
#include <gtest/gtest.h>

#include "opgen/emit/site/names.h"
#include "opgen/emit/site/notation.h"
#include "opgen/emit/site/site.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

std::string json_of_site() {
  Problems problems;
  const Program program = analyze(inputs_of(kFolder + "/site.yaml", "site.yaml"), false, problems);
  EXPECT_EQ(problems, Problems());
  return site::json_of(program);
}

/// The equation with this left side after `from`.
std::string equation(const std::string& json, const std::string& op, const std::string& part, const std::string& left) {
  const size_t begin = json.find("{\"name\":\"" + op + "\"");
  const size_t place = json.find("\"left\":\"" + left + "\",\"right\":\"", json.find("\"" + part + "\":[", begin));
  if (begin == std::string::npos || place == std::string::npos) return "missing";
  const size_t start = json.find("\"right\":\"", place) + 9;
  return json.substr(start, json.find('"', start) - start);
}

TEST(Site, PointwiseExpressionsAreMathematics) {
  const std::string json = json_of_site();
  EXPECT_EQ(equation(json, "gate", "meaning", "y"), R"(x^{2}\\,\\sigma(-z) - 2\\,x)");
  EXPECT_EQ(equation(json, "halved", "meaning", "y"),
            R"(\\begin{cases} \\frac{e^{-\\tfrac{1}{2}\\,x^{2}}}{1 + x} & \\text{if } x = 0 \\\\ -(x - 1) & \\text{otherwise} )"
            R"(\\end{cases})");
}

TEST(Site, ConditionsOfPointwiseExpressionsAreCases) {
  const std::string json = json_of_site();
  EXPECT_EQ(equation(json, "picked", "meaning", "y"),
            R"(\\begin{cases} x\\,z & \\text{if } \\mathit{flag\\_a} \\ne 0 \\\\ -x & \\text{if } )"
            R"(\\mathit{flag\\_b} \\ne 0 \\\\ z & \\text{if } x > 1 \\\\ 2 & \\text{otherwise} \\end{cases})");
  const std::string gradient = equation(json, "picked", "reverse", R"(\\bar{x})");
  EXPECT_NE(gradient.find(R"(\\begin{cases})"), std::string::npos) << gradient;
  EXPECT_EQ(gradient.find(" ? "), std::string::npos) << gradient;
}

TEST(Site, CharactersOfLatexAreEscapedInTexts) {
  EXPECT_EQ(site::escape("a_b 5% # & $x {y}"), R"(a\_b 5\% \# \& \$x \{y\})");
  EXPECT_EQ(site::escape(R"(~^\)"), R"(\text{\textasciitilde}\text{\textasciicircum}\text{\textbackslash})");
  EXPECT_EQ(site::function_name("50%_off"), R"(\operatorname{50\%\_off})");
  EXPECT_EQ(site::identifier("one&two"), R"(\mathit{one\&two})");
}

TEST(Site, FusedDerivativesAreWrittenOut) {
  const std::string gradient = equation(json_of_site(), "gate", "reverse", R"(\\bar{x})");
  EXPECT_EQ(gradient.find("backward"), std::string::npos) << gradient;
  EXPECT_NE(gradient.find(R"(\\bar{y}\\,)"), std::string::npos) << gradient;
  EXPECT_NE(gradient.find(R"(\\sigma(-z))"), std::string::npos) << gradient;
}

TEST(Site, WrittenFormulasKeepTheirLetsAndConditions) {
  const std::string json = json_of_site();
  EXPECT_EQ(equation(json, "written", "reverse", R"(\\bar{x})"),
            R"(\\begin{cases} u \\odot \\bar{y} & \\text{if } \\mathit{start\\_dim} = 0 \\\\ \\bar{y} & )"
            R"(\\text{otherwise} \\end{cases})");
  EXPECT_NE(json.find(R"("with":[{"left":"u","right":"e^{x}"}])"), std::string::npos) << json;
  EXPECT_EQ(equation(json, "written", "forward", R"(\\dot{y})"), R"(\\dot{x})");
}

TEST(Site, WhatNoFormulaSaysIsInTheEntry) { EXPECT_NE(json_of_site().find(R"("math":"y = \\frac{x}{2}")"), std::string::npos); }

TEST(Site, LettersAreExplained) {
  const std::string json = json_of_site();
  EXPECT_NE(json.find(R"("letters":[{"letter":"x","name":"self"},{"letter":"z","name":"other"},{"letter":"y","name":"result"}])"),
            std::string::npos);
}

TEST(Site, NumbersAndSigns) {
  EXPECT_EQ(site::number("0.6931471805599453").text, "\\ln 2");
  EXPECT_EQ(site::number("1e-5").text, "10^{-5}");
  EXPECT_EQ(site::number("2.5e3").text, "2.5 \\cdot 10^{3}");
  const site::Printed x{"x"}, sum = site::binary("+", x, x, "\\,");
  EXPECT_EQ(site::binary("-", x, site::negate(x), "\\,").text, "x - (-x)");
  EXPECT_EQ(site::binary("+", x, site::negate(x), "\\,").text, "x - x");
  EXPECT_EQ(site::binary("-", x, sum, "\\,").text, "x - (x + x)");
  EXPECT_EQ(site::binary("*", site::number("-2"), site::number("3"), "\\,").text, "-2 \\cdot 3");
  EXPECT_EQ(site::binary("*", sum, site::number("-2"), "\\,").text, "(x + x)\\,(-2)");
}

}  // namespace
}  // namespace opgen::testing
