#pragma once

#include <functional>
#include <string>

#include "opgen/formula/expr.h"

namespace opgen {

/// How a value depends on what a formula is to be linear in: not at all and zero, not at all, linearly, or otherwise as far as
/// its structure shows.
enum class Degree { zero, constant, linear, other };

/// The degree of a sum, a product and a quotient. The sum of a linear and a constant term is neither.
Degree sum_of(Degree a, Degree b);
Degree product_of(Degree a, Degree b);
Degree quotient_of(Degree a, Degree b);

/// The degree of a pointwise expression over names that have these.
Degree degree_of(const ExprPtr& expr, const std::function<Degree(const std::string&)>& of_name);

}  // namespace opgen
