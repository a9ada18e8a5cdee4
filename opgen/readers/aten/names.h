#pragma once

#include <map>
#include <string>

namespace opgen::aten {

/// Names of constants, as our formulas write them: M_PI, pi.
const std::map<std::string, std::string>& cpp_constants();

/// Types that hold the very thing they are made of: a list, an optional value, a whole number.
bool is_holder(const std::string& name);
/// Names that `<` may follow with types.
bool is_template(const std::string& name);

/// at::native::f -> f: without the namespaces that formulas use.
std::string without_namespaces(const std::string& name);
/// GradMode::is_enabled -> GradMode_is_enabled.
std::string one_word(std::string name);
/// What `name` is called where an int is an int: sum_to_symint -> sum_to.
std::string without_symint(const std::string& name);

}  // namespace opgen::aten
