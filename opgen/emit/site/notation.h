#pragma once

#include <optional>
#include <string>
#include <vector>

#include "opgen/emit/site/latex.h"

/// How mathematics writes things, whatever tree they come from.
namespace opgen::site {

std::string parenthesise(const std::string& text);
/// In parentheses if it binds less tightly.
std::string within(const Printed& part, int at_least);
/// 0.6931471805599453 is \ln 2, 1e-5 is 10^{-5}.
Printed number(const std::string& text);
/// An operator of formulas: + - * / % == ... && ||.
Printed binary(const std::string& operation, const Printed& left, const Printed& right, const std::string& times);
Printed negate(const Printed& part);
Printed invert(const Printed& part);
/// exp(x), sqrt(x), pow(x, y) and others that have a notation of their own.
std::optional<Printed> known_function(const std::string& name, const std::vector<Printed>& arguments);
/// f(a, b).
Printed print_call(const std::string& name, const std::vector<std::string>& arguments);
/// (value, condition) pairs; the last condition is empty.
Printed cases(const std::vector<std::pair<std::string, std::string>>& rows);

}  // namespace opgen::site
