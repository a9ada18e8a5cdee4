#include "opgen/analyze/views.h"

#include <algorithm>

namespace opgen {
namespace {

bool shows_self(const Term& written, const Block& formula) {
  const Term& term = without_lets(written, formula);
  if (term.reads(Symbol::What::argument)) return term.symbol.index == 0 && term.symbol.how == Symbol::How::whole;
  if (term.is(TermKind::condition)) return shows_self(*term.arguments[1], formula) || shows_self(*term.arguments[2], formula);
  return term.is(TermKind::op) && shows_self(*term.op) && shows_self(*term.arguments[0], formula);
}

}  // namespace

bool shows_self(const Op& op) {
  if (op.schema.arguments.empty() || !op.schema.arguments[0].type.is_tensor() || op.schema.results.size() != 1 ||
      !op.schema.results[0].type.is_tensor() || op.writes_argument())
    return false;
  if (op.body == Op::Body::composite) {
    return shows_self(*op.composite.value, op.composite) ||
           std::any_of(op.composite_on.begin(), op.composite_on.end(),
                       [](const auto& one) { return shows_self(*one.second.value, one.second); });
  }
  return op.schema.arguments[0].alias && op.schema.results[0].alias;
}

}  // namespace opgen
