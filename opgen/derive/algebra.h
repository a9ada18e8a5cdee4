#pragma once

#include "opgen/formula/expr.h"

/// Constructors of pointwise expressions that simplify as they build: constants fold, 0 and 1 vanish, signs move outwards.
/// For derivatives: they change rounding, never limits, and x * 0 is 0, for there the 0 is a derivative that does not exist.
/// x / c stays a quotient unless 1 / c is exact.
namespace opgen::algebra {

ExprPtr number(double value);
ExprPtr name(const std::string& text);
ExprPtr call(const std::string& function, std::vector<ExprPtr> args, const Position& at);
bool is_number(const ExprPtr& expr, double value);
bool is_number(const ExprPtr& expr);
double value_of(const ExprPtr& number);

ExprPtr add(const ExprPtr& a, const ExprPtr& b);
ExprPtr sub(const ExprPtr& a, const ExprPtr& b);
ExprPtr mul(const ExprPtr& a, const ExprPtr& b);
ExprPtr div(const ExprPtr& a, const ExprPtr& b);
ExprPtr neg(const ExprPtr& a);
ExprPtr where(const ExprPtr& condition, const ExprPtr& yes, const ExprPtr& no);

/// Rebuilds a whole expression through these constructors; `? :` becomes where.
ExprPtr simplify(const ExprPtr& expr);

/// The expression as it is written, for what users compute themselves: only operations on two numbers are carried out, and
/// `? :` becomes where. x * 0 stays a product (it may be NaN) and x / 3 a quotient.
ExprPtr fold_numbers(const ExprPtr& expr);

/// `expr` with the name `from` replaced by `to`.
ExprPtr substitute(const ExprPtr& expr, std::string_view from, const ExprPtr& to);

}  // namespace opgen::algebra
