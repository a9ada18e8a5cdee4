#pragma once

#include <string>

#include "opgen/analyze/node.h"

namespace opgen::cpp {

/// The loop over levels of forward mode that gives the results their tangents. `self_source` is what holds self as it was
/// before an in-place write.
std::string print_tangents(const Op& op, const std::string& self_source = "self", bool inplace = false);

}  // namespace opgen::cpp
