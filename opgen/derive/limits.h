#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// `expr` with every product of a factor that vanishes and one that may be infinite written damped(vanishing, other),
/// which is 0 where the first is 0.
ExprPtr protect_limits(const ExprPtr& expr, const Library& library);

/// Whether a scalar function and its slopes are finite everywhere.
bool is_bounded_function(const std::string& name);

}  // namespace opgen
