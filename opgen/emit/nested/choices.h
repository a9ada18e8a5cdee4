#pragma once

#include <set>
#include <string>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen {

/// The sets of arguments that are nested, one overload each.
std::vector<std::set<std::string>> nested_choices(const Op& op);

namespace nested {

/// The arguments that are nested where there is no choice.
std::set<std::string> nested_arguments(const Op& op);
/// Pointwise ops take nested and dense operands in every combination.
bool combines(const Op& op);

}  // namespace nested
}  // namespace opgen
