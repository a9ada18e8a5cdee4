#include "opgen/schema/dtypes.h"

#include <algorithm>

namespace opgen {

const std::vector<std::string>& dtype_names() {
  static const std::vector<std::string> kNames = {"bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"};
  return kNames;
}

std::string dtype_cpp(std::string_view name) {
  const std::vector<std::string>& names = dtype_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) return "";
  return name == "bool" ? "DType::bool_" : "DType::" + std::string(name);  // bool is a word of C++
}

}  // namespace opgen
