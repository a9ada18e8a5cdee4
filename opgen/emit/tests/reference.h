#pragma once

#include "opgen/ir/program.h"

namespace opgen::tests {

/// A pointwise expression as it is written, in plain C++ on doubles: what the generated kernel is compared with. Scalar functions
/// are those of tests/ops/reference.h, or of the header that their library names.
std::string reference_cpp(const ExprPtr& expression, const Functions& functions);

}  // namespace opgen::tests
