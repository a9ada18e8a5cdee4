#pragma once

#include <string>

#include "opgen/analyze/node.h"

namespace opgen::cpp {

/// The function that writes self: the in-place variant, or an op that writes its first argument.
std::string print_inplace(const Op& op, const NodePlan& plan);

}  // namespace opgen::cpp
