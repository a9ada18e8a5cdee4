#include "opgen/ir/equal.h"

#include <functional>
#include <string>

#include "opgen/ir/op.h"

namespace opgen {

std::pair<size_t, bool> TermNumbers::of(const TermPtr& term, const std::vector<size_t>& arguments) {
  size_t hash = std::hash<std::string>()(term->text);
  const auto mix = [&](size_t value) { hash = (hash ^ value) * 1099511628211U; };
  for (const size_t value :
       {static_cast<size_t>(term->kind), std::hash<const void*>()(term->op), static_cast<size_t>(term->operation), term->position,
        static_cast<size_t>(term->symbol.what), term->symbol.index})
    mix(value);
  for (const size_t argument : arguments) mix(argument);
  const auto [first, last] = by_hash_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const auto& [other, parts] = terms_[it->second];
    if (parts == arguments && same_apart_from_arguments(*term, *other)) return {it->second, false};
  }
  by_hash_.emplace(hash, terms_.size());
  terms_.emplace_back(term, arguments);
  return {terms_.size() - 1, true};
}

size_t always_evaluated(const Term& term) {
  const bool shortcut = term.operation == Operator::logical_and || term.operation == Operator::logical_or;
  const bool first_only = term.is(TermKind::condition) || (term.is(TermKind::operation) && shortcut);
  return first_only ? 1 : term.arguments.size();
}

bool may_be_shared(const Term& term) {
  return term.is(TermKind::op) && (term.type.is_tensor() || term.type.base == Base::tuple || term.type.base == Base::record) &&
         !term.op->takes(Base::generator) && !term.op->writes_argument() && term.op->name() != "clone";
}

}  // namespace opgen
