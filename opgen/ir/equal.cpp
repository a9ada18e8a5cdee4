#include "opgen/ir/equal.h"

#include <fmt/format.h>

#include "opgen/ir/op.h"

namespace opgen {

std::string equality_key(const Term& term, const std::vector<size_t>& arguments) {
  std::string key = fmt::format("{} {} {} {} {} {} {} {} {} {} {}", static_cast<int>(term.kind), term.text, term.type.to_string(),
                                static_cast<const void*>(term.op), static_cast<const void*>(term.helper),
                                static_cast<int>(term.operation), static_cast<int>(term.property), term.position,
                                static_cast<int>(term.symbol.what), term.symbol.index, static_cast<int>(term.symbol.how));
  for (const size_t argument : arguments) key += fmt::format(",{}", argument);
  return key;
}

size_t always_evaluated(const Term& term) {
  const bool shortcut = term.operation == Operator::logical_and || term.operation == Operator::logical_or;
  const bool first_only = term.is(Term::Kind::condition) || (term.is(Term::Kind::operation) && shortcut);
  return first_only ? 1 : term.arguments.size();
}

bool may_be_shared(const Term& term) {
  return term.is(Term::Kind::op) && (term.type.is_tensor() || term.type.base == Base::tuple || term.type.base == Base::record) &&
         !term.op->takes(Base::generator) && !term.op->writes_argument() && term.op->name() != "clone";
}

}  // namespace opgen
