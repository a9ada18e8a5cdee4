#pragma once

#include <functional>
#include <optional>
#include <string>

#include "opgen/ir/program.h"

namespace opgen {

using Scalar = std::optional<long double>;

/// The value of a pointwise expression whose names have these; conditions are 0 or 1. nullopt where a function is not known
/// here: those of other libraries are written in C++.
Scalar value_of(const ExprPtr& expr, const std::function<Scalar(const std::string&)>& of_name, const Functions& functions);

/// A scalar function of one or of two numbers; null where it is not known here, or means another expression.
long double (*function_of_one(const std::string& name))(long double);
long double (*function_of_two(const std::string& name))(long double, long double);
/// Whether the steps of a function stand too close together at x to be told from a slope by differences.
bool is_beyond_steps(const std::string& name, long double x);

/// Of an operator between plain values, and of a literal: 2.5, inf, true.
Scalar apply(const std::string& operation, long double a, long double b);
Scalar literal_value(const std::string& text);

}  // namespace opgen
