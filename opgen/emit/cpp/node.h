#pragma once

#include <string>

#include "opgen/analyze/node.h"

namespace opgen::cpp {

std::string node_name(const Op& op);

/// The node: what it keeps, and its backward().
std::string print_node(const Op& op, const NodePlan& plan);

/// `name`, with a number behind it if `taken` has it already.
std::string fresh(const std::string& name, const std::set<std::string>& taken);

/// Identifiers of arguments, results and of what surrounds formulas: functions of these names are hidden.
std::set<std::string> identifiers(const Op& op);

}  // namespace opgen::cpp
