#include "opgen/analyze/node.h"

#include <algorithm>

namespace opgen {
namespace {

using What = Symbol::What;
using How = Symbol::How;

constexpr How kParts[] = {How::sizes, How::dtype, How::device, How::defined};

class Planner {
 public:
  explicit Planner(const Op& op) : op_(op) {}

  NodePlan plan() {
    slots();
    for (const Rule& rule : op_.reverse) {
      if (rule.when) {
        sizes_read(*rule.when);
        for (const auto& [symbol, use] : uses_of({{}, rule.when})) {
          parts_[symbol].insert(use.parts.begin(), use.parts.end());
          if (use.whole > 0) whole_for_[symbol].insert(rule.of.begin(), rule.of.end());
        }
      }
      for (const Let& let : rule.formula.lets) {
        sizes_read(*let.value);
        if (const Symbol* operand = sizes_of(*let.value)) summed_to_.insert({operand->what, operand->index});
      }
      sizes_read(*rule.formula.value);
      for (const auto& [symbol, use] : uses_of(rule.formula)) {
        parts_[symbol].insert(use.parts.begin(), use.parts.end());
        if (use.whole > 0) {
          whole_for_[symbol].insert(rule.of.begin(), rule.of.end());
          when_[symbol].push_back(rule.when);
        }
        if (use.elements > 0) elements_for_[symbol].insert(rule.of.begin(), rule.of.end());
      }
    }
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i) argument(i);
    for (size_t i = 0; i < op_.schema.results.size(); ++i) result(i);
    for (Saved& saved : plan_.saved)
      saved.rows = op_.takes_rows() && saved.symbol.what == What::argument && saved.type.is_tensor();
    original_self();
    return std::move(plan_);
  }

 private:
  void slots() {
    size_t fixed = 0;
    std::vector<size_t> lists;
    for (const size_t input : op_.differentiable()) {
      const bool list = op_.schema.arguments[input].type.list;
      plan_.slots.push_back({input, fixed, lists, list});
      if (list)
        lists.push_back(input);
      else
        ++fixed;
    }
  }

  /// Where rows may repeat the sizes that a gradient is summed to are not those that anything else reads.
  void sizes_read(const Term& term) {
    const Symbol* operand = is_sum_to(term) ? sizes_of(*term.arguments[1]) : nullptr;
    if (operand != nullptr) {
      summed_to_.insert({operand->what, operand->index});
      sizes_read(*term.arguments[0]);
      return;
    }
    if (term.is(TermKind::read) && term.symbol.how == How::sizes) measured_.insert({term.symbol.what, term.symbol.index});
    for (const TermPtr& part : term.arguments) sizes_read(*part);
  }

  void parts(const Symbol& symbol, const Type& type) {
    const SymbolKey key{symbol.what, symbol.index};
    for (const How how : kParts) {
      if (!parts_[key].count(how)) continue;
      Symbol part = symbol;
      part.how = how;
      const bool of_rows = how == How::sizes && op_.takes_rows() && symbol.what == What::argument;
      if (!of_rows || summed_to_.count(key)) plan_.saved.push_back({Saved::Kind::value, part, type, {}});
      if (!of_rows || !measured_.count(key)) continue;
      plan_.saved.push_back({Saved::Kind::value, part, type, {}});
      plan_.saved.back().repeated_sizes = true;
    }
  }

  void argument(size_t index) {
    const Argument& argument = op_.schema.arguments[index];
    const Symbol symbol{What::argument, index, argument.name, How::whole, argument.path};
    const auto whole = whole_for_.find({What::argument, index});
    if (argument.type.is_tensor()) parts(symbol, argument.type);
    if (whole != whole_for_.end()) {
      Saved saved{argument.type.is_tensor_like() ? Saved::Kind::tensor : Saved::Kind::value, symbol, argument.type, {}};
      if (saved.kind == Saved::Kind::tensor && whole->second.size() < plan_.slots.size()) saved.only_for = whole->second;
      if (saved.kind == Saved::Kind::tensor) saved.only_when = conditions_of({What::argument, index});
      plan_.saved.push_back(std::move(saved));
    } else if (const auto elements = elements_for_.find({What::argument, index}); elements != elements_for_.end()) {
      plan_.saved.push_back({Saved::Kind::tensor, symbol, argument.type, elements->second, true});
    }
    if (const Slot* slot = plan_.slot_of(index); slot && slot->list && op_.limit.order == 0)
      plan_.saved.push_back({Saved::Kind::count, symbol, argument.type, {}});
  }

  void result(size_t index) {
    const Symbol symbol{What::result, index, op_.result_name(index), How::whole, op_.schema.results[index].path};
    parts(symbol, op_.schema.results[index].type);
    if (whole_for_.count({What::result, index}))
      plan_.saved.push_back(
          {Saved::Kind::output, symbol, op_.schema.results[index].type, {}, false, conditions_of({What::result, index})});
    else if (const auto elements = elements_for_.find({What::result, index}); elements != elements_for_.end())
      plan_.saved.push_back({Saved::Kind::output, symbol, op_.schema.results[index].type, elements->second, true});
  }

  /// Those of all rules that read it; none if one of them always holds.
  std::vector<TermPtr> conditions_of(const SymbolKey& symbol) const {
    const auto found = when_.find(symbol);
    const bool always = found == when_.end() ||
                        std::any_of(found->second.begin(), found->second.end(), [](const TermPtr& when) { return !when; });
    return always ? std::vector<TermPtr>() : found->second;
  }

  /// Formulas that read self as it was before it was written.
  void original_self() {
    const auto whole = whole_for_.find({What::argument, 0});
    if (whole != whole_for_.end()) plan_.original_self_for = whole->second;
    for (const TangentTerm& term : op_.tangent_terms) {
      if (reads(term.formula, What::primal, 0)) plan_.original_self_for.insert(term.input);
    }
    for (const Rule& rule : op_.forward) {
      if (!reads(rule.formula, What::primal, 0)) continue;
      for (const Slot& slot : plan_.slots) plan_.original_self_for.insert(slot.argument);
    }
  }

  const Op& op_;
  NodePlan plan_;
  std::map<SymbolKey, std::set<How>> parts_;
  std::set<SymbolKey> summed_to_, measured_;  // whose sizes are the second argument of sum_to, and are read elsewhere
  std::map<SymbolKey, std::set<size_t>> whole_for_, elements_for_;
  std::map<SymbolKey, std::vector<TermPtr>> when_;  // of the rules that read it as a whole
};

}  // namespace

const Slot* NodePlan::slot_of(size_t argument) const {
  const auto found = std::find_if(slots.begin(), slots.end(), [&](const Slot& slot) { return slot.argument == argument; });
  return found == slots.end() ? nullptr : &*found;
}

NodePlan plan_node(const Op& op) { return Planner(op).plan(); }

}  // namespace opgen
