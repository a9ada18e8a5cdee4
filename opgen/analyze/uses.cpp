#include "opgen/analyze/uses.h"

#include <algorithm>

namespace opgen {

Uses uses_of(const Block& body) {
  Uses uses;
  visit(body, [&](const Term& part) {
    if (!part.is(TermKind::read)) return;
    Use& use = uses[{part.symbol.what, part.symbol.index}];
    if (part.symbol.how == Symbol::How::whole)
      ++use.whole;
    else if (part.symbol.how == Symbol::How::element)
      ++use.elements;
    else
      use.parts.insert(part.symbol.how);
  });
  return uses;
}

bool reads(const Block& body, Symbol::What what, size_t index) {
  bool found = false;
  visit(body, [&](const Term& part) { found = found || (part.is(TermKind::read) && part.symbol.is(what, index)); });
  return found;
}

bool reads_in_any_case(const Block& body, Symbol::What what, size_t index) {
  const std::function<bool(const Term&)> read = [&](const Term& term) {
    if (term.is(TermKind::read)) return term.symbol.is(what, index);
    const bool shortcut = term.operation == Operator::logical_and || term.operation == Operator::logical_or;
    if (term.is(TermKind::condition))  // or in both branches
      return read(*term.arguments[0]) || (read(*term.arguments[1]) && read(*term.arguments[2]));
    if (term.is(TermKind::operation) && shortcut) return read(*term.arguments[0]);
    return std::any_of(term.arguments.begin(), term.arguments.end(), [&](const TermPtr& part) { return read(*part); });
  };
  return read(*body.value) || std::any_of(body.lets.begin(), body.lets.end(), [&](const Let& let) { return read(*let.value); });
}

bool reads_own_gradient(const Block& body) {
  const Uses uses = uses_of(body);
  const auto gradients = uses.find({Symbol::What::gradients, 0});
  return gradients != uses.end() && gradients->second.whole == 0;
}

const Symbol* sizes_of(const Term& term) {
  const bool of_a_symbol = term.is(TermKind::property) && term.property == Property::sizes &&
                           term.arguments[0]->is(TermKind::read) && term.arguments[0]->symbol.how == Symbol::How::sizes;
  return of_a_symbol ? &term.arguments[0]->symbol : nullptr;
}

bool is_sum_to(const Term& term) { return term.is(TermKind::op) && term.op->name() == "sum_to"; }

}  // namespace opgen
