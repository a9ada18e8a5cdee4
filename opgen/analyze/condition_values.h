#pragma once

#include <string>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen {

/// Whether `value operation other` holds, both as formulas write them.
bool compares(const std::string& value, Operator operation, const std::string& other);

/// Values that make comparisons with those written turn out in every way: these, and others below, between and above them.
/// `whole`: integers; `count`: none below 0.
std::vector<std::string> values_around(const std::vector<std::string>& written, bool whole, bool count);

/// The same of conditions on a dtype: those written, one more that is floating and one more that is not.
std::vector<std::string> dtypes_around(const std::vector<std::string>& written);
bool is_floating_dtype(const std::string& dtype);

}  // namespace opgen
