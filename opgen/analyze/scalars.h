#pragma once

#include <optional>
#include <string>

namespace opgen {

using Scalar = std::optional<long double>;

/// A scalar function, or an operator, of one or of two numbers; conditions are 0 or 1. Null where it is not known here, as those
/// of other libraries, which are written in C++, or means another expression.
long double (*function_of_one(const std::string& name))(long double);
long double (*function_of_two(const std::string& name))(long double, long double);
/// floor and its like.
bool has_steps(const std::string& name);

/// The value of a literal: 2.5, inf, true.
Scalar literal_value(const std::string& text);

}  // namespace opgen
