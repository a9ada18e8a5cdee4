#include "opgen/analyze/uses.h"

namespace opgen {

void visit(const Term& term, const std::function<void(const Term&)>& see) {
  see(term);
  for (const TermPtr& argument : term.arguments) visit(*argument, see);
}

void visit(const Block& body, const std::function<void(const Term&)>& see) {
  for (const Let& let : body.lets) visit(*let.value, see);
  if (body.value) visit(*body.value, see);
}

void count_uses(const Term& term, Uses& uses) {
  visit(term, [&](const Term& part) {
    if (!part.is(Term::Kind::read)) return;
    Use& use = uses[{part.symbol.what, part.symbol.index}];
    if (part.symbol.how == Symbol::How::whole)
      ++use.whole;
    else
      use.parts.insert(part.symbol.how);
  });
}

Uses uses_of(const Block& body) {
  Uses uses;
  for (const Let& let : body.lets) count_uses(*let.value, uses);
  count_uses(*body.value, uses);
  return uses;
}

bool reads(const Term& term, Symbol::What what, size_t index) {
  bool found = false;
  visit(term, [&](const Term& part) { found = found || (part.is(Term::Kind::read) && part.symbol.is(what, index)); });
  return found;
}

bool reads(const Block& body, Symbol::What what, size_t index) {
  for (const Let& let : body.lets) {
    if (reads(*let.value, what, index)) return true;
  }
  return reads(*body.value, what, index);
}

void collect_calls(const Term& term, std::set<const Op*>& calls) {
  visit(term, [&](const Term& part) {
    if (part.is(Term::Kind::op)) calls.insert(part.op);
  });
}

void collect_calls(const Block& body, std::set<const Op*>& calls) {
  visit(body, [&](const Term& part) {
    if (part.is(Term::Kind::op)) calls.insert(part.op);
  });
}

}  // namespace opgen
