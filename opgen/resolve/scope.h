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

  /// Of a formula for each element of a list: its number is i.
  void define_element();
};

/// Of a reverse formula: arguments, results, the gradients that arrive, wants(x).
Scope reverse_scope(const Op& op, const Program& program);
/// Of a forward formula: x_p, x_t, other arguments, results, has_t(x).
Scope forward_scope(const Op& op, const Program& program);
/// Of formulas on the arguments themselves: composite, check, result, wrap.
Scope argument_scope(const Op& op, const Program& program);

}  // namespace opgen
