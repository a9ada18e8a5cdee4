#pragma once

#include <map>
#include <string>

#include "opgen/ir/program.h"
#include "opgen/model/entry.h"

namespace opgen {

/// What a name in a formula stands for.
struct Meaning {
  Type type;
  Symbol symbol;
  std::string refuse;           // not "": reading the name as a whole is an error with this text
  std::vector<Meaning> fields;  // of a record
};

/// The names that a formula may use.
struct Scope {
  const Program& program;
  std::map<std::string, Meaning> names;
  std::string asks;                     // the special form that is allowed: wants, has_t
  std::map<std::string, size_t> asked;  // and the inputs that it takes, fields of records as x.q

  /// Adds i, the number of the element, for a formula of each element of a list.
  void define_element();
};

/// The names in a reverse formula: arguments, results, the gradients that arrive, wants(x).
Scope reverse_scope(const Op& op, const Program& program);
/// The names in a forward formula: x_p, x_t, other arguments, results, has_t(x).
Scope forward_scope(const Op& op, const Program& program);
/// The names in formulas on the arguments themselves: composite, check, result, wrap.
Scope argument_scope(const Op& op, const Program& program);

}  // namespace opgen
