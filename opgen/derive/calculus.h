#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// Checks that `expr` is a pointwise expression over `names`: only operators, where, and scalar functions of `library`;
/// throws Problem at the first thing that is not. `boolean` expressions: comparisons and logic.
void check_pointwise(const ExprPtr& expr, const std::vector<std::string>& names, const Library& library);
bool is_boolean(const ExprPtr& expr, const Functions& functions);

/// Whether the expression reads `input` only to compare it with 0, as the condition of a choice.
bool only_condition(const ExprPtr& expr, const std::string& input);

/// d expr / d variable, simplified.
ExprPtr differentiate(const ExprPtr& expr, const std::string& variable, const Library& library);

/// A pattern of functions.yaml over the parameters and the result of a scalar function, for these.
ExprPtr instantiate(const ExprPtr& pattern, const ScalarFunction& function, const std::vector<ExprPtr>& args,
                    const ExprPtr& result);

/// A call of a scalar function that `means` another expression, written so; null for any other.
ExprPtr meaning_of(const ExprPtr& call, const Functions& functions);

/// Rough cost per element, shared subexpressions counted once: arithmetic 1, division 4, functions 10.
int cost_of(const ExprPtr& expr);

/// Number of operations in the tree.
int operations_in(const ExprPtr& expr);

}  // namespace opgen
