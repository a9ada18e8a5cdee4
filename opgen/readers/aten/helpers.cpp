#include "opgen/readers/aten/helpers.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "opgen/readers/aten/convert.h"
#include "opgen/readers/aten/helper_table.h"
#include "opgen/text/source.h"

namespace opgen::aten {
namespace {

using Table = std::unordered_map<std::string, std::vector<Schema>>;

/// One schema a line; lines that begin with a blank go on with it.
Table table_of(std::string_view text) {
  Table table;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    while (end + 1 < text.size() && text[end + 1] == ' ') end = std::min(text.find('\n', end + 1), text.size());
    const Text line(std::string(text.substr(0, end)), Position{"helper_table.cpp", 1, 1});
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    Schema schema = parse_schema(line);
    table[schema.name].push_back(std::move(schema));
  }
  return table;
}

Helpers make_helpers() {
  Helpers helpers;
  helpers.functions = table_of(kHelperFunctions);
  helpers.methods = table_of(kHelperMethods);
  Type number;
  number.base = Base::floating;
  for (const char* name : {"pi", "inf", "nan", "M_E", "M_LN2", "M_LN10", "M_SQRT2"}) helpers.constants[name] = number;
  number.base = Base::integer;
  for (const char* name : {"Reduction_None", "Reduction_Mean", "Reduction_Sum"}) helpers.constants[name] = number;
  number.base = Base::string;
  helpers.constants["kCudnnDoubleBackwardMsg"] = number;
  for (const char* name : {"kStrided", "kSparse", "kSparseCsr", "kJagged"}) helpers.constants[name] = foreign_type("Layout");
  for (const char* name : {"MemoryFormat_Contiguous", "MemoryFormat_Preserve"})
    helpers.constants[name] = foreign_type("MemoryFormat");
  return helpers;
}

/// Methods that look at nothing but a tensor's description, and what they look at.
constexpr std::array kProperties = {
    std::pair{"sizes", "sizes"},           std::pair{"size", "size"},
    std::pair{"numel", "numel"},           std::pair{"dim", "dim"},
    std::pair{"strides", "strides"},       std::pair{"scalar_type", "dtype"},
    std::pair{"dtype", "dtype"},           std::pair{"is_complex", "dtype"},
    std::pair{"layout", "layout"},         std::pair{"device", "device"},
    std::pair{"options", "options"},       std::pair{"defined", "defined"},
    std::pair{"is_contiguous", "strides"}, std::pair{"suggest_memory_format", "strides"},
    std::pair{"blocksize", "blocksize"},   std::pair{"requires_grad", "requires_grad"},
    std::pair{"new_zeros", "options"},     std::pair{"new_ones", "options"},
    std::pair{"new_empty", "options"},     std::pair{"new_full", "options"},
};

struct ArgumentProperty {
  std::string_view callee;
  size_t argument;
  const char* property;
};

/// Arguments of functions and methods that are read no further; argument 0 of a method is what it is called on.
constexpr std::array kArguments = {
    ArgumentProperty{"zeros_like", 0, "like"},     ArgumentProperty{"ones_like", 0, "like"},
    ArgumentProperty{"empty_like", 0, "like"},     ArgumentProperty{"full_like", 0, "like"},
    ArgumentProperty{"rand_like", 0, "like"},      ArgumentProperty{"TensorGeometry", 0, "geometry"},
    ArgumentProperty{"to_args_sizes", 0, "sizes"}, ArgumentProperty{"to_args_scalartypes", 0, "dtype"},
    ArgumentProperty{"expand_as", 1, "sizes"},     ArgumentProperty{"reshape_as", 1, "sizes"},
    ArgumentProperty{"view_as", 1, "sizes"},       ArgumentProperty{"type_as", 1, "options"},
};

}  // namespace

const Helpers& helpers() {
  static const Helpers all = make_helpers();
  return all;
}

std::string property_of_method(const std::string& method) {
  for (const auto& [name, property] : kProperties) {
    if (method == name) return property;
  }
  return "";
}

std::string property_of_argument(const std::string& callee, size_t argument) {
  for (const ArgumentProperty& one : kArguments) {
    if (one.callee == callee && one.argument == argument) return one.property;
  }
  return "";
}

}  // namespace opgen::aten
