#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "opgen/model/entry.h"

namespace opgen {

/// What a name in a formula stands for.
struct Binding {
  Type type;
  std::string cpp;                                // how generated code reads it
  std::map<std::string, std::string> properties;  // of a tensor: "sizes" -> field, where generated code keeps only that
  std::string refuse;                             // not "": reading the name as a whole is an error with this text
};

/// How a formula used a name.
struct Use {
  int whole = 0;                     // times the value itself was read
  std::set<std::string> properties;  // sizes, dtype, defined...
};

struct Lowered {
  std::string cpp;
  Type type;
  int precedence = 8;  // as in formula/expr.h
};

/// Names in scope and what was found while lowering.
struct Scope {
  const Library& library;
  std::map<std::string, Binding> names;
  std::set<std::string> shadowing;           // identifiers of the generated code around the formula that would hide functions
  std::set<std::string> functions;           // special forms allowed here: wants, has_t
  std::map<std::string, std::string> wants;  // input -> C++ of wants(input)

  std::map<std::string, Use> uses;
  std::set<const Entry*> calls;
};

/// Type-checks `expr` and writes it in C++; throws Problem at the first error.
Lowered lower(const ExprPtr& expr, Scope& scope);

/// As lower, then converts to `wanted`; `what` names the formula in the error.
std::string lower_to(const ExprPtr& expr, const Type& wanted, Scope& scope, const std::string& what);

Type tensor_type(bool optional = false);
Type type_of(Base base, bool list = false);
/// What a call of the op yields: its result, none, or a tuple.
Type result_type_of(const Schema& schema);

}  // namespace opgen
