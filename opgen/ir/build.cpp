#include "opgen/ir/build.h"

#include "opgen/ir/op.h"

namespace opgen {
namespace {

Term term_of(TermKind kind, Type type, std::vector<TermPtr> arguments, const Position& at) {
  Term term;
  term.kind = kind;
  term.type = std::move(type);
  term.arguments = std::move(arguments);
  term.at = at;
  return term;
}

TermPtr make_term(Term term) { return std::make_shared<const Term>(std::move(term)); }

}  // namespace

Type type_of(Base base, bool list) {
  Type type;
  type.base = base;
  type.list = list;
  return type;
}

Type tensor_type(bool optional) {
  Type type = type_of(Base::tensor);
  type.optional = optional;
  return type;
}

Type result_type_of(const Schema& schema) {
  const std::vector<Parameter> outcomes = schema.outcomes();
  if (outcomes.empty()) return type_of(Base::none);
  if (outcomes.size() == 1) return outcomes[0].type;
  Type type = type_of(Base::tuple);
  for (const Parameter& outcome : outcomes) type.elements.push_back(outcome.type);
  return type;
}

TermPtr literal(std::string text, Type type, const Position& at) {
  Term term = term_of(TermKind::literal, std::move(type), {}, at);
  term.text = std::move(text);
  return make_term(std::move(term));
}

TermPtr read(Symbol symbol, Type type, const Position& at) {
  Term term = term_of(TermKind::read, std::move(type), {}, at);
  term.symbol = std::move(symbol);
  return make_term(std::move(term));
}

TermPtr read_only(const Term& term, Symbol::How how) {
  Symbol symbol = term.symbol;
  symbol.how = how;
  return read(std::move(symbol), term.type, term.at);
}

TermPtr convert_to(Type type, TermPtr value) {
  const Position at = value->at;
  return make_term(term_of(TermKind::conversion, std::move(type), {std::move(value)}, at));
}

TermPtr operation(Operator operation, std::vector<TermPtr> operands, Type type, const Position& at) {
  Term term = term_of(TermKind::operation, std::move(type), std::move(operands), at);
  term.operation = operation;
  return make_term(std::move(term));
}

TermPtr property(Property property, std::vector<TermPtr> arguments, Type type, const Position& at) {
  Term term = term_of(TermKind::property, std::move(type), std::move(arguments), at);
  term.property = property;
  return make_term(std::move(term));
}

TermPtr element(TermPtr of, size_t position, Type type, const Position& at) {
  if (of->is(TermKind::record)) return of->arguments[position];
  Term term = term_of(TermKind::index, std::move(type), {std::move(of)}, at);
  term.position = position;
  return make_term(std::move(term));
}

TermPtr call_of(const Op& op, std::vector<TermPtr> arguments, const Position& at, Operator operation) {
  Term term = term_of(TermKind::op, result_type_of(op.schema), std::move(arguments), at);
  term.op = &op;
  term.operation = operation;
  return make_term(std::move(term));
}

TermPtr compound(TermKind kind, std::vector<TermPtr> arguments, Type type, const Position& at) {
  return make_term(term_of(kind, std::move(type), std::move(arguments), at));
}

}  // namespace opgen
