#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "opgen/schema/schema.h"

namespace opgen::aten {

/// What formulas call besides the functions of native_functions.yaml: C++ functions written for derivatives, methods that have no
/// schema, and constants. Known by signature alone.
struct Helpers {
  std::unordered_map<std::string, std::vector<Schema>> functions;
  std::unordered_map<std::string, std::vector<Schema>> methods;  // whose first argument is what they are called on
  std::unordered_map<std::string, Type> constants;
};

const Helpers& helpers();

/// Whether a method of a tensor, or a helper's argument, needs to know of the tensor no more than its sizes, dtype and the like:
/// the name of what it needs, or "".
std::string property_of_method(const std::string& method);
std::string property_of_argument(const std::string& callee, size_t argument);

}  // namespace opgen::aten
