#pragma once

#include <string>

#include "opgen/analyze/node.h"

namespace opgen::cpp {

/// Public functions: the op itself, and its variants. Errors begin with the op's name.
/// The public function, on tensors, of an op that takes rows.
std::string print_on_tensors(const Op& op);
std::string print_functional(const Op& op, const NodePlan& plan);
std::string print_composite(const Op& op);
/// Its body is written by hand, in namespace composite.
std::string print_composite_cpp(const Op& op);
std::string print_out(const Op& op);

/// Statements that hold the lists of which formulas for each element read the same element to one length.
std::string require_one_length(const Op& op);
/// The call below autograd.
std::string call_below(const Op& op);
/// Names of the differentiable inputs.
std::vector<std::string> differentiable_names(const Op& op);

}  // namespace opgen::cpp
