#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "opgen/formula/expr.h"
#include "opgen/ir/term.h"

namespace opgen {

/// `value` as one of type `wanted`, and how far the types are apart; nullopt if they do not fit.
std::optional<std::pair<TermPtr, int>> convert(const TermPtr& value, const Type& wanted);

/// `value`, which is one of the enum's; throws Problem with those that there are.
const std::string& enum_value(const EnumType& type, const std::string& value, const Position& at);

/// A number as operand of arithmetic on numbers: a Scalar becomes a float.
TermPtr plain_number(const TermPtr& value);

/// Arguments in the order of a schema, those after the last one given left to their defaults; or why they do not fit.
struct Bound {
  std::vector<TermPtr> arguments;
  int distance = 0;
  std::string mismatch;  // "": they fit
  Position mismatch_at;
};

/// `values` are those of `args`, some of them given by name (`keys`), in the call `expr`.
Bound bind_arguments(const Schema& schema, const ExprPtr& expr, const std::vector<ExprPtr>& args,
                     const std::vector<std::string>& keys, const std::vector<TermPtr>& values);

}  // namespace opgen
