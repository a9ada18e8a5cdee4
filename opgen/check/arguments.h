#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "opgen/check/lower.h"

namespace opgen {

/// The C++ of `value`, in parentheses if it binds less tightly than `at_least`.
std::string wrap(const Lowered& value, int at_least);

/// An operand of arithmetic on numbers.
std::string plain(const Lowered& value, int at_least);

/// A list in braces as the type that is wanted: Ints{1, 2}.
std::string list_literal(const std::string& braces, const Type& wanted);

/// The C++ of `value` as an argument of type `wanted`, and how far the types are apart; nullopt if they do not fit.
std::optional<std::pair<std::string, int>> convert(const Lowered& value, const Type& wanted);

/// Arguments in the order of a schema, or why they do not fit it.
struct Bound {
  std::vector<std::string> arguments;
  int distance = 0;
  std::string mismatch;  // "": they fit
  Position mismatch_at;
};

/// `values` are those of `args`, some of them given by name (`keys`), in the call `expr`.
Bound bind_arguments(const Schema& schema, const ExprPtr& expr, const std::vector<ExprPtr>& args,
                     const std::vector<std::string>& keys, const std::vector<Lowered>& values);

}  // namespace opgen
