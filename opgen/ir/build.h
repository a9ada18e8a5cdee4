#pragma once

#include <string>
#include <vector>

#include "opgen/ir/term.h"

/// Makers of types and terms.
namespace opgen {

Type type_of(Base base, bool list = false);
Type tensor_type(bool optional = false);
/// What a call yields: its result, none, or a tuple.
Type result_type_of(const Schema& schema);

TermPtr literal(std::string text, Type type, const Position& at);
TermPtr read(Symbol symbol, Type type, const Position& at);
/// The symbol of `term`, of which no more than `how` is needed.
TermPtr read_only(const Term& term, Symbol::How how);
TermPtr convert_to(Type type, TermPtr value);
TermPtr operation(Operator operation, std::vector<TermPtr> operands, Type type, const Position& at);
TermPtr property(Property property, std::vector<TermPtr> arguments, Type type, const Position& at);
/// Element `position` of a tuple or a record.
TermPtr element(TermPtr of, size_t position, Type type, const Position& at);
/// A call of an op, as an operator between tensors if `operation` is not none.
TermPtr call_of(const Op& op, std::vector<TermPtr> arguments, const Position& at, Operator operation = Operator::none);
TermPtr compound(TermKind kind, std::vector<TermPtr> arguments, Type type, const Position& at);

/// The term over other arguments, which `change` makes of its own.
template <typename Change>
TermPtr with_arguments(const TermPtr& term, const Change& change) {
  if (term->arguments.empty()) return term;
  auto copy = std::make_shared<Term>(*term);
  for (TermPtr& argument : copy->arguments) argument = change(argument);
  return copy;
}

}  // namespace opgen
