#pragma once

#include "opgen/formula/expr.h"

namespace opgen::tests {

/// A pointwise expression as it is written, in plain C++ on doubles: what the generated kernel is compared with. Scalar functions
/// are those of tests/ops/reference.h.
std::string reference_cpp(const ExprPtr& expression);

}  // namespace opgen::tests
