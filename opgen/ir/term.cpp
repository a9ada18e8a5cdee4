#include "opgen/ir/term.h"

#include <array>

namespace opgen {

const char* spelling(Operator operation) {
  static constexpr std::array kSpellings = {"", "-", "!", "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||"};
  return kSpellings[static_cast<size_t>(operation)];
}

const char* spelling(Property property) {
  static constexpr std::array kSpellings = {"sizes",   "strides",       "size",   "dim",       "numel", "dtype",      "device",
                                            "defined", "is_contiguous", "length", "has_value", "value", "components", "rows"};
  return kSpellings[static_cast<size_t>(property)];
}

const char* part_name(Symbol::How how) {
  static constexpr std::array kNames = {"whole", "sizes", "dtype", "device", "defined", "element"};
  return kNames[static_cast<size_t>(how)];
}

bool same_apart_from_arguments(const Term& a, const Term& b) {
  return a.kind == b.kind && a.text == b.text && a.op == b.op && a.helper == b.helper && a.operation == b.operation &&
         a.property == b.property && a.position == b.position && a.symbol.same_thing(b.symbol) && a.symbol.how == b.symbol.how &&
         a.type == b.type;
}

void visit(const Term& term, const std::function<void(const Term&)>& see) {
  see(term);
  for (const TermPtr& argument : term.arguments) visit(*argument, see);
}

void visit(const Block& body, const std::function<void(const Term&)>& see) {
  for (const Let& let : body.lets) visit(*let.value, see);
  if (body.value) visit(*body.value, see);
}

const Term& without_lets(const Term& term, const Block& formula) {
  if (term.is(TermKind::conversion)) return without_lets(*term.arguments[0], formula);
  return term.reads(Symbol::What::let) ? without_lets(*formula.lets[term.symbol.index].value, formula) : term;
}

}  // namespace opgen
