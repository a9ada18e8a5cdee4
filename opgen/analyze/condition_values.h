#pragma once

#include <string>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen {

/// Whether a value compares so with another, both as formulas write them.
bool compares(const std::string& value, Operator operation, const std::string& with);

/// What tells apart the values that something is compared with: these, and others beside and between them. `whole`: an integer;
/// `count`: and none below 0.
std::vector<std::string> values_around(const std::vector<std::string>& written, bool whole, bool count);

/// Dtypes that tell conditions apart which name these: these, one more that is floating and one more that is not.
std::vector<std::string> dtypes_around(const std::vector<std::string>& written);
bool is_floating_dtype(const std::string& dtype);

}  // namespace opgen
