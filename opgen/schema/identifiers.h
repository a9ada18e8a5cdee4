#pragma once

#include <set>
#include <string>
#include <string_view>

namespace opgen {

/// Why nothing can have this name, which files and tests would be named after; "" if it is short enough.
std::string why_too_long(std::string_view name);

/// Why `name` cannot name an argument, a result or a `let`, in a sentence; "" if it can.
std::string why_not_a_name(std::string_view name);

/// The same for the name of an op.
std::string why_not_an_op(std::string_view name);

/// The same for the name of a type that an entry file declares.
std::string why_not_a_type(std::string_view name);
bool is_macro(std::string_view name);
bool is_class_of_library(std::string_view name);

/// Members of the nodes that are generated, among which what they save gets fields.
const std::set<std::string>& node_members();

}  // namespace opgen
