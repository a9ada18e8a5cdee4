#pragma once

#include <optional>
#include <string>
#include <vector>

#include "opgen/schema/schema.h"

namespace opgen::aten {

/// An argument of a C++ function that serves a schema.
struct Parameter {
  std::string name;
  Type type;
  bool has_default = false;
};

/// The parameters of a schema in C++: `dtype, layout, device, pin_memory` are one `options` if `grouped`.
std::vector<Parameter> parameters_of(const Schema& schema, bool grouped);

/// How far `from` is from serving as `to`: 0 it is that, more where C++ converts; -1 it cannot. An unknown type serves as any.
int distance(const std::optional<Type>& from, const Type& to);

/// The type of `condition ? a : b`, and of a list that holds both.
std::optional<Type> common_type(const Type& a, const Type& b);

Type foreign_type(const std::string& name);
Type element_of(Type list);
Type list_of(Type element);
bool is_none(const Type& type);
/// A number, of whatever kind.
bool is_number(const Type& type);
/// What an optional holds.
Type without_optional(Type type);

}  // namespace opgen::aten
