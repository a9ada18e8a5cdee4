#include "opgen/analyze/nested_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace opgen {
namespace {

/// One choice of nested arguments of one op.
class Asked {
 public:
  Asked(const Op& op, const std::vector<std::string>& nested) : op_(op), nested_(nested) {}

  /// Empty, or what of the term has no one value where these arguments are nested.
  std::string unknown_in(const Term& term) const {
    if (is_nested(term)) return fmt::format("'{}'", term.symbol.name);
    if (reads_dim(term)) return fmt::format("'{}', which counts the batch and the ragged dims", term.symbol.name);
    if (term.is(TermKind::property) && is_nested(*term.arguments[0])) return unknown_property(term);
    const bool compares = term.is(TermKind::operation) &&
                          (term.operation == Operator::equal || term.operation == Operator::not_equal) &&
                          is_sizes(*term.arguments[0]) && is_sizes(*term.arguments[1]);
    if (compares) return "";
    for (const TermPtr& argument : term.arguments) {
      if (term.is(TermKind::helper) && is_nested(*argument)) continue;  // asked of the values
      if (std::string unknown = unknown_in(*argument); !unknown.empty()) return unknown;
    }
    return "";
  }

  /// A message shows the sizes of a nested tensor as it shows those of others.
  std::string unknown_in(const Check& check) const {
    std::string unknown = unknown_in(*check.condition);
    for (const Check::Piece& piece : check.message) {
      if (unknown.empty() && piece.value && !is_sizes(*piece.value)) unknown = unknown_in(*piece.value);
    }
    return unknown;
  }

 private:
  bool is_nested(const Term& term) const {
    return term.reads(Symbol::What::argument) &&
           std::find(nested_.begin(), nested_.end(), op_.schema.arguments[term.symbol.index].name) != nested_.end();
  }

  bool reads_dim(const Term& term) const {
    return term.reads(Symbol::What::argument) && is_dim(op_.schema.arguments[term.symbol.index]);
  }

  bool is_sizes(const Term& term) const {
    return term.is(TermKind::property) && term.property == Property::sizes && is_nested(*term.arguments[0]);
  }

  static bool is_last(const Term& dim) {
    if (dim.is(TermKind::operation) && dim.operation == Operator::negate) return dim.arguments[0]->text == "1";
    return dim.is(TermKind::literal) && dim.text == "-1";
  }

  std::string unknown_property(const Term& term) const {
    static const std::vector<Property> known = {Property::dim, Property::numel, Property::dtype, Property::device,
                                                Property::defined};
    if (std::find(known.begin(), known.end(), term.property) != known.end()) return "";
    if (term.property == Property::size && op_.nested.rows && is_last(*term.arguments[1])) return "";
    return fmt::format("'{}.{}({})'", term.arguments[0]->symbol.name, spelling(term.property),
                       term.property == Property::size ? "..." : "");
  }

  const Op& op_;
  const std::vector<std::string>& nested_;
};

std::vector<std::vector<std::string>> choices_of(const Op& op) {
  if (!op.nested.choices.empty()) return op.nested.choices;
  if (!op.nested.on.empty()) return {op.nested.on};
  for (const Argument& argument : op.schema.arguments) {
    if (argument.type.is_tensor_like()) return {{argument.name}};
  }
  return {};
}

}  // namespace

void check_nested_checks(const Program& program, Problems& problems) {
  for (const auto& op : program.ops) {
    if (op->external || op->nested.kind != NestedRule::Kind::cpp) continue;
    for (const Check& check : op->checks) {
      if (!check.by_hand.empty()) continue;
      std::string unknown;
      for (const auto& choice : choices_of(*op)) {
        if (unknown.empty()) unknown = Asked(*op, choice).unknown_in(check);
      }
      if (!unknown.empty())
        refuse(problems, check.condition->at,
               fmt::format("this check reads {}, and has no one meaning for the overload of nested tensors: let "
                           "'deckle::nested::{}' check what stands in its place, and say so, 'by_hand: REASON'",
                           unknown, op->name()));
    }
  }
}

}  // namespace opgen
