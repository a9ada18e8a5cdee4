#include "opgen/analyze/element_wise.h"

#include <algorithm>
#include <set>

#include "opgen/analyze/uses.h"

namespace opgen {
namespace {

const std::set<std::string> kCopies = {"clone",      "contiguous", "expand", "expand_as", "to",  "full_like",
                                       "zeros_like", "ones_like",  "full",   "zeros",     "ones"};

bool is_of_elements(const Op& op) {
  if (op.body == Op::Body::pointwise || op.element_wise) return true;
  return op.body == Op::Body::composite && op.composite_on.empty() && call_beyond_elements(op.composite) == nullptr;
}

/// Whether it is a linear op of one operand: neg, which of a sum is the sum of its terms' neg.
bool is_linear_alone(const Term& term) {
  return term.is(TermKind::op) && term.arguments.size() == 1 && term.op->body == Op::Body::pointwise && term.op->linear;
}

/// Within the term and the lets that it reads; `outer`: around it stands nothing that sums could not be moved out of.
const Term* beyond(const Term& term, const Block& formula, bool outer) {
  if (term.reads(Symbol::What::let)) return beyond(*formula.lets[term.symbol.index].value, formula, outer);
  const bool call = term.is(TermKind::op), sums = call && term.op->name() == "sum_to";
  if (call && !(sums && outer) && kCopies.count(term.op->name()) == 0 && !is_of_elements(*term.op)) return &term;
  const bool around = outer && (term.is(TermKind::tuple) || term.is(TermKind::condition) || term.is(TermKind::conversion) ||
                                is_linear_alone(term));
  for (const TermPtr& part : term.arguments) {
    if (const Term* const found = beyond(*part, formula, around)) return found;
  }
  return nullptr;
}

}  // namespace

const Op* whole_op(const Block& formula) {
  const Op* found = nullptr;
  visit(formula, [&](const Term& part) {
    if (found || !part.is(TermKind::op) || part.op->body == Op::Body::pointwise || part.op->element_wise) return;
    const bool composite =
        part.op->body == Op::Body::composite && part.op->composite_on.empty() && whole_op(part.op->composite) == nullptr;
    if (!composite) found = part.op;
  });
  return found;
}

const Term* call_beyond_elements(const Block& formula) { return beyond(*formula.value, formula, true); }

}  // namespace opgen
