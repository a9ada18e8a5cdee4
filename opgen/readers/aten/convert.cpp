#include "opgen/readers/aten/convert.h"

#include <algorithm>

namespace opgen::aten {
namespace {

constexpr int kNever = -1;

bool same_base(const Type& a, const Type& b) { return a.base == b.base && a.foreign_name == b.foreign_name; }

bool is_options(const Type& type) { return type.base == Base::foreign && type.foreign_name == "TensorOptions" && !type.list; }

/// Among plain values that are neither lists nor optional.
int scalar_distance(const Type& from, const Type& to) {
  if (same_base(from, to)) return 0;
  const bool number = from.base == Base::integer || from.base == Base::floating || from.base == Base::boolean;
  if (to.base == Base::scalar && number) return 1;
  if (to.base == Base::floating && from.base == Base::integer) return 1;
  if ((to.base == Base::integer || to.base == Base::boolean) && number) return 2;
  if (is_options(to) && (from.base == Base::dtype || (from.base == Base::foreign && from.foreign_name != "MemoryFormat")))
    return 1;
  return kNever;
}

}  // namespace

std::vector<Parameter> parameters_of(const Schema& schema, bool grouped) {
  std::vector<Parameter> parameters;
  const auto& arguments = schema.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool options = grouped && i + 3 < arguments.size() && arguments[i].name == "dtype" &&
                         arguments[i + 1].name == "layout" && arguments[i + 2].name == "device" &&
                         arguments[i + 3].name == "pin_memory";
    parameters.push_back({arguments[i].name, arguments[i].type, arguments[i].default_value.has_value()});
    if (!options) continue;
    parameters.back().name = "options";
    parameters.back().type = foreign_type("TensorOptions");
    i += 3;
  }
  return parameters;
}

int distance(const std::optional<Type>& from, const Type& to) {
  if (!from) return 0;
  if (is_none(*from)) return to.optional || to.is_tensor() || to.base == Base::generator ? 1 : kNever;
  if (from->base == Base::tuple || to.base == Base::tuple) return kNever;
  if (from->list) {
    if (!to.list) return kNever;
    if (from->base == Base::none) return 1;  // {}
    const int element = scalar_distance(*from, to);
    return element == kNever ? kNever : element + (from->optional != to.optional ? 1 : 0) + (from->optional_elements ? 1 : 0);
  }
  if (to.list) {  // a list of one
    const int element = distance(from, element_of(to));
    return element == kNever || from->is_tensor() ? kNever : element + 3;
  }
  const int plain = scalar_distance(*from, to);
  if (plain == kNever) return kNever;
  return plain + (from->optional != to.optional ? 1 : 0);
}

std::optional<Type> common_type(const Type& a, const Type& b) {
  if (a == b) return a;
  if (is_none(a) || is_none(b)) {
    Type other = is_none(a) ? b : a;
    if (!other.is_tensor()) other.optional = true;
    return other;
  }
  if (a.base == Base::tuple && b.base == Base::tuple && a.elements.size() == b.elements.size()) {
    Type tuple = a;
    for (size_t i = 0; i < a.elements.size(); ++i) {
      const std::optional<Type> element = common_type(a.elements[i], b.elements[i]);
      if (!element) return std::nullopt;
      tuple.elements[i] = *element;
    }
    return tuple;
  }
  if (is_number(a) && is_number(b)) {
    Type number;
    number.base = a.base == Base::scalar || b.base == Base::scalar       ? Base::scalar
                  : a.base == Base::floating || b.base == Base::floating ? Base::floating
                                                                         : Base::integer;
    return number;
  }
  if (distance(a, b) >= 0) return b;
  if (distance(b, a) >= 0) return a;
  return std::nullopt;
}

Type foreign_type(const std::string& name) {
  Type type;
  type.base = Base::foreign;
  type.foreign_name = name;
  return type;
}

Type element_of(Type list) {
  list.list = false;
  list.length = 0;
  list.optional = list.optional_elements;
  list.optional_elements = false;
  return list;
}

Type list_of(Type element) {
  element.list = true;
  element.optional_elements = element.optional;
  element.optional = false;
  return element;
}

bool is_none(const Type& type) { return type.base == Base::none && !type.list; }

bool is_number(const Type& type) {
  return !type.list && !type.optional &&
         (type.base == Base::integer || type.base == Base::floating || type.base == Base::scalar || type.base == Base::boolean);
}

Type without_optional(Type type) {
  type.optional = false;
  return type;
}

}  // namespace opgen::aten
