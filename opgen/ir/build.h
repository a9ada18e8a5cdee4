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
TermPtr compound(Term::Kind kind, std::vector<TermPtr> arguments, Type type, const Position& at);

}  // namespace opgen
