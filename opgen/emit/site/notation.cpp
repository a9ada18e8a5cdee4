#include "opgen/emit/site/notation.h"

#include <fmt/format.h>

#include <cctype>
#include <map>

#include "opgen/text/strings.h"

namespace opgen::site {
namespace {

const std::map<std::string, Printed> kConstants = {
    {"pi", {"\\pi", 8}},
    {"inf", {"\\infty", 8}},
    {"nan", {"\\mathrm{NaN}", 8}},
    {"0.6931471805599453", {"\\ln 2", 5}},
    {"1.4426950408889634", {"\\frac{1}{\\ln 2}", 7}},
    {"0.4342944819032518", {"\\frac{1}{\\ln 10}", 7}},
    {"1.1283791670955126", {"\\frac{2}{\\sqrt{\\pi}}", 7}},
    {"0.3989422804014327", {"\\frac{1}{\\sqrt{2\\pi}}", 7}},
    {"0.5", {"\\tfrac{1}{2}", 7}},
    {"0.25", {"\\tfrac{1}{4}", 7}},
};

/// Functions of one argument: `{}` is the argument, in parentheses where `at_least` asks for them.
struct Notation {
  const char* pattern;
  int at_least;
  int precedence;
};
const std::map<std::string, Notation> kUnary = {
    {"exp", {"e^{{{}}}", 0, 7}},
    {"exp2", {"2^{{{}}}", 0, 7}},
    {"expm1", {"e^{{{}}} - 1", 0, 4}},
    {"sqrt", {"\\sqrt{{{}}}", 0, 8}},
    {"rsqrt", {"\\frac{{1}}{{\\sqrt{{{}}}}}", 0, 7}},
    {"reciprocal", {"\\frac{{1}}{{{}}}", 0, 7}},
    {"square", {"{}^2", 8, 7}},
    {"abs", {"\\left|{}\\right|", 0, 8}},
    {"floor", {"\\left\\lfloor {} \\right\\rfloor", 0, 8}},
    {"ceil", {"\\left\\lceil {} \\right\\rceil", 0, 8}},
    {"log1p", {"\\ln(1 + {})", 4, 8}},
    {"isnan", {"{} \\text{{ is NaN}}", 4, 3}},
    {"isinf", {"{} = \\pm\\infty", 4, 3}},
    {"isfinite", {"\\left|{}\\right| < \\infty", 0, 3}},
};

/// Functions that have a name in mathematics.
const std::map<std::string, const char*> kNamed = {
    {"log", "\\ln"},         {"log2", "\\log_2"},  {"log10", "\\log_{10}"}, {"sigmoid", "\\sigma"},
    {"normal_cdf", "\\Phi"}, {"tanh", "\\tanh"},   {"sin", "\\sin"},        {"cos", "\\cos"},
    {"tan", "\\tan"},        {"minimum", "\\min"}, {"maximum", "\\max"},    {"sinh", "\\sinh"},
    {"cosh", "\\cosh"},      {"asin", "\\arcsin"}, {"acos", "\\arccos"},    {"atan", "\\arctan"},
};

const std::map<std::string, const char*> kRelations = {{"==", "="},      {"!=", "\\ne"},  {"<", "<"},
                                                       {"<=", "\\le"},   {">", ">"},      {">=", "\\ge"},
                                                       {"&&", "\\land"}, {"||", "\\lor"}, {"%", "\\bmod"}};

int strength(const std::string& operation) {
  if (operation == "||") return 1;
  if (operation == "&&") return 2;
  return operation == "%" ? 5 : 3;
}

bool begins_with_number(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text.rfind("10^", 0) == 0);
}

}  // namespace

std::string parenthesise(const std::string& text) {
  const bool tall = text.find("\\frac") != std::string::npos || text.find("\\begin") != std::string::npos;
  return tall ? "\\left(" + text + "\\right)" : "(" + text + ")";
}

std::string within(const Printed& part, int at_least) { return part.precedence < at_least ? parenthesise(part.text) : part.text; }

Printed number(const std::string& text) {
  if (!text.empty() && text[0] == '-') return {negate(number(text.substr(1))).text, 6, true};
  if (const auto known = kConstants.find(text); known != kConstants.end()) return known->second;
  const size_t exponent = text.find_first_of("eE");
  if (exponent == std::string::npos || !begins_with_number(text)) return {text, 8};
  const std::string mantissa = text.substr(0, exponent);
  const std::string power = fmt::format("10^{{{}}}", std::stoi(text.substr(exponent + 1)));
  return mantissa == "1" ? Printed{power, 7} : Printed{mantissa + " \\cdot " + power, 5};
}

Printed negate(const Printed& part) { return {"-" + (part.negative ? parenthesise(part.text) : within(part, 5)), 4, true}; }

Printed invert(const Printed& part) { return {"\\lnot " + within(part, 4), 6}; }

Printed binary(const std::string& operation, const Printed& left, const Printed& right, const std::string& times) {
  if (operation == "+") {
    if (right.negative && right.precedence >= 4) return {within(left, 4) + " - " + right.text.substr(1), 4, left.negative};
    return {within(left, 4) + " + " + within(right, 4), 4, left.negative};
  }
  if (operation == "-")
    return {within(left, 4) + " - " + (right.negative ? parenthesise(right.text) : within(right, 5)), 4, left.negative};
  if (operation == "*") {
    const std::string factor = right.negative ? parenthesise(right.text) : within(right, 5);
    return {within(left, 5) + (begins_with_number(factor) ? " \\cdot " : times) + factor, 5,
            left.negative && left.precedence >= 5};
  }
  if (operation == "/") return {fmt::format("\\frac{{{}}}{{{}}}", left.text, right.text), 7};
  const int own = strength(operation);
  return {fmt::format("{} {} {}", within(left, own + 1), kRelations.at(operation), within(right, own + 1)), own};
}

Printed print_call(const std::string& name, const std::vector<std::string>& arguments) {
  return {name + parenthesise(join(arguments, ",\\, ")), 8};
}

std::optional<Printed> known_function(const std::string& name, const std::vector<Printed>& arguments) {
  if (arguments.size() == 1) {
    const auto unary = kUnary.find(name);
    if (unary != kUnary.end()) {
      const Notation& notation = unary->second;
      return Printed{fmt::format(fmt::runtime(notation.pattern), within(arguments[0], notation.at_least)), notation.precedence};
    }
  }
  if (name == "pow" && arguments.size() == 2)
    return Printed{fmt::format("{}^{{{}}}", within(arguments[0], 8), arguments[1].text), 7};
  if (name == "damped" && arguments.size() == 2) return binary("*", arguments[0], arguments[1], "\\,");
  const auto named = kNamed.find(name);
  if (named == kNamed.end()) return std::nullopt;
  std::vector<std::string> texts;
  for (const Printed& argument : arguments) texts.push_back(argument.text);
  return print_call(named->second, texts);
}

Printed cases(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::vector<std::string> lines;
  for (const auto& [value, condition] : rows)
    lines.push_back(value + " & " + (condition.empty() ? "\\text{otherwise}" : "\\text{if } " + condition));
  return {fmt::format("\\begin{{cases}} {} \\end{{cases}}", join(lines, " \\\\ ")), 7};
}

}  // namespace opgen::site
