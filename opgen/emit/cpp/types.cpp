#include "opgen/emit/cpp/types.h"

#include <fmt/format.h>

#include "opgen/schema/dtypes.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

std::string element_type(const Type& type) {
  switch (type.base) {
    case Base::tensor:
      return "Tensor";
    case Base::integer:
      return "int64_t";
    case Base::floating:
      return "double";
    case Base::boolean:
      return "bool";
    case Base::scalar:
      return "Scalar";
    case Base::dtype:
      return "DType";
    case Base::string:
      return "std::string_view";
    case Base::generator:
      return "Generator*";
    case Base::ragged:
      return "Ragged";
    case Base::plan:
      return "Plan";
    case Base::enumeration:
      return type.enumeration->cpp();
    case Base::record:
      return type.record->cpp();
    default:
      return "void";
  }
}

}  // namespace

std::string parameter_type(const Type& type) {
  if (type.list) {
    std::string list;
    if (type.base == Base::tensor) return "TensorList";
    if (type.base == Base::integer)
      list = type.optional ? "std::optional<IntSpan>" : "IntSpan";
    else if (type.base == Base::boolean || type.base == Base::scalar || type.base == Base::floating)
      list = fmt::format("const std::vector<{}>&", element_type(type));
    else
      list = fmt::format("std::span<const {}>", element_type(type));
    return type.optional && type.base != Base::integer ? "std::optional<" + list + ">" : list;
  }
  if (type.base == Base::tensor || type.base == Base::ragged || type.base == Base::plan || type.base == Base::record)
    return "const " + element_type(type) + "&";
  if (type.base == Base::generator) return "Generator*";
  if (type.optional) return "std::optional<" + element_type(type) + ">";
  if (type.base == Base::scalar) return "const Scalar&";
  return element_type(type);
}

std::string public_type(const Type& type) {
  if (type.is_list_of(Base::integer)) return type.optional ? "OptionalInts" : "Ints";
  if (!type.list && type.base == Base::integer) return type.optional ? "OptionalIntArg" : "IntArg";
  if (!type.list && !type.optional && type.base == Base::boolean) return "BoolArg";
  if (!type.list && !type.optional && type.base == Base::floating) return "FloatArg";
  return parameter_type(type);
}

std::string kernel_parameter_type(const Type& type) {
  if (type.list) {
    if (type.base == Base::tensor) return "std::span<const View>";
    if (type.base == Base::integer) return type.optional ? "std::optional<std::span<const int64_t>>" : "std::span<const int64_t>";
    if (type.base == Base::scalar) return "std::span<const double>";
    return parameter_type(type);
  }
  if (type.base == Base::tensor) return "const View&";
  if (type.base == Base::ragged) return "const RaggedView&";
  if (type.base == Base::generator) return "PhiloxStream";
  if (type.base == Base::scalar) return type.optional ? "std::optional<double>" : "double";
  return parameter_type(type);
}

std::string kernel_field_type(const Type& type) {
  if (type.is_tensor()) return "View";
  return kernel_parameter_type(type);
}

std::string owned_type(const Type& type) {
  std::string owned;
  if (type.list) {
    if (type.base == Base::integer)
      owned = "Dims";
    else
      owned = fmt::format("std::vector<{}>", element_type(type));
  } else if (type.base == Base::string) {
    owned = "std::string";
  } else {
    owned = element_type(type);
  }
  const bool handle = !type.list && (type.base == Base::tensor || type.base == Base::generator || type.base == Base::ragged ||
                                     type.base == Base::plan || type.base == Base::record);
  return type.optional && !handle ? "std::optional<" + owned + ">" : owned;
}

std::string return_type(const Op& op) {
  if (op.schema.results.empty()) return "void";
  if (op.writes_argument() && op.schema.results.size() == 1) return "const Tensor&";
  std::vector<std::string> types;
  for (const Parameter& outcome : op.schema.outcomes()) types.push_back(owned_type(outcome.type));
  return types.size() == 1 ? types[0] : "std::tuple<" + join(types) + ">";
}

std::string default_value(const Argument& argument) {
  const std::string& text = *argument.default_value;
  if (text == "None")
    return argument.type.base == Base::generator ? "nullptr" : argument.type.is_tensor() ? "{}" : "std::nullopt";
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text[0] == '[') return "{" + text.substr(1, text.size() - 2) + "}";
  if (text[0] == '\'' || text[0] == '"') return quote(text.substr(1, text.size() - 2));
  if (argument.type.is(Base::dtype)) return dtype_cpp(text);
  if (argument.type.is(Base::enumeration)) return argument.type.enumeration->cpp() + "::" + text;
  if (argument.type.is_list_of(Base::integer)) {  // int[2] stride=1: one for all
    std::string all = text;
    for (int i = 1; i < argument.type.length; ++i) all += ", " + text;
    return "{" + all + "}";
  }
  return text == kLeastInteger ? "std::numeric_limits<int64_t>::min()" : text;
}

std::vector<std::string> parameters(const Op& op, bool with_defaults, std::string (*type)(const Type&)) {
  std::vector<std::string> parts;
  // C++ knows no keyword-only arguments: a default counts only if all later arguments have one too.
  const std::vector<Parameter> all = op.schema.parameters();
  size_t first_default = all.size();
  while (first_default > 0) {
    const Parameter& parameter = all[first_default - 1];
    const Argument& argument = op.schema.arguments[parameter.first];
    if (parameter.is_record() || (!argument.default_value && !(argument.type.is_tensor() && argument.type.optional))) break;
    --first_default;
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Argument& argument = op.schema.arguments[all[i].first];
    std::string part = type(all[i].type) + " " + all[i].name;
    if (with_defaults && i >= first_default) part += " = " + (argument.default_value ? default_value(argument) : "{}");
    parts.push_back(part);
  }
  return parts;
}

std::vector<std::string> row_parameters(const Op& op, bool with_defaults) {
  std::vector<std::string> parts = parameters(op, with_defaults);
  for (size_t i = 0; i < parts.size(); ++i) {
    const Argument& argument = op.schema.arguments[i];
    if (argument.type.is_tensor()) parts[i] = "const RowOperand& " + argument.name;
  }
  return parts;
}

}  // namespace opgen::cpp
