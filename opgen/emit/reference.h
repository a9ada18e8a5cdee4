#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// A pointwise expression as it is written, in plain C++ on doubles: what the generated kernel is compared with. Scalar functions
/// are those of tests/ops/reference.h.
std::string reference_cpp(const ExprPtr& expression);

}  // namespace opgen
