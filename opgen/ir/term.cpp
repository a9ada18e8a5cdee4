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

bool equal(const Term& a, const Term& b) {
  if (&a == &b) return true;
  if (a.kind != b.kind || a.text != b.text || a.op != b.op || a.helper != b.helper || a.operation != b.operation ||
      a.property != b.property || a.position != b.position || a.arguments.size() != b.arguments.size())
    return false;
  if (!a.symbol.same_thing(b.symbol) || a.symbol.how != b.symbol.how || !(a.type == b.type)) return false;
  for (size_t i = 0; i < a.arguments.size(); ++i) {
    if (!equal(*a.arguments[i], *b.arguments[i])) return false;
  }
  return true;
}

}  // namespace opgen
