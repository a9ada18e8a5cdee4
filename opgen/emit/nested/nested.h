#pragma once

#include <set>

#include "opgen/emit/common/emitter.h"

namespace opgen {

/// The sets of arguments that are nested, one overload each.
std::vector<std::set<std::string>> nested_choices(const Op& op);

namespace nested {

/// Overloads for nested tensors.
void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>& notes);

}  // namespace nested
}  // namespace opgen
