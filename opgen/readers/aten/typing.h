#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opgen/formula/expr.h"
#include "opgen/readers/aten/function.h"
#include "opgen/readers/aten/helpers.h"

namespace opgen::aten {

/// A call whose function was found.
struct Callee {
  std::string name;  // add.Tensor of the schemas; a helper's or a method's name
  Type result;
  bool schema = false;  // of native_functions.yaml
  Position at;
};

/// What the types of a formula are, or why not.
struct Typed {
  std::optional<Type> type;
  std::vector<Callee> callees;
  int calls = 0;  // of functions and methods, typed or not
  struct Reason {
    Position at;
    std::string text;
  };
  std::vector<Reason> reasons;  // each thing that has no type
};

/// The names that a formula may read.
using Scope = std::map<std::string, Type>;

Typed type_formula(const ExprPtr& formula, const Scope& scope, const Functions& functions, const Helpers& helpers);

}  // namespace opgen::aten
