#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opgen {

/// The dtypes as entries write them.
const std::vector<std::string>& dtype_names();

/// float32 -> DType::float32; "" if no dtype has that name.
std::string dtype_cpp(std::string_view name);

}  // namespace opgen
