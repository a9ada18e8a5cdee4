#pragma once

#include <map>
#include <set>
#include <utility>

#include "opgen/ir/op.h"

namespace opgen {

/// How a formula uses a symbol.
struct Use {
  int whole = 0;                // times the value itself is read
  int elements = 0;             // times one element of a list is, in a formula for each
  std::set<Symbol::How> parts;  // what else is read
};

using SymbolKey = std::pair<Symbol::What, size_t>;
using Uses = std::map<SymbolKey, Use>;

Uses uses_of(const Block& body);

bool reads(const Block& body, Symbol::What what, size_t index);

/// Whether a formula reads the symbol whatever its conditions turn out to be.
bool reads_in_any_case(const Block& body, Symbol::What what, size_t index);

/// Whether a formula for each element of a list reads the gradient of the same element of the result, and no other.
bool reads_own_gradient(const Block& body);

/// The symbol whose sizes these are; null if they are something else.
const Symbol* sizes_of(const Term& term);

/// Whether it sums a gradient to sizes.
bool is_sum_to(const Term& term);

/// The ops that a formula calls.
template <typename Formula>  // Term or Block
void collect_calls(const Formula& formula, std::set<const Op*>& calls) {
  visit(formula, [&](const Term& part) {
    if (part.is(TermKind::op)) calls.insert(part.op);
  });
}

}  // namespace opgen
