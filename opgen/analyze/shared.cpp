#include "opgen/analyze/shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "opgen/analyze/uses.h"
#include "opgen/ir/build.h"
#include "opgen/ir/equal.h"

namespace opgen {
namespace {

/// A term, with lets written out, and all that equal it. Parts have smaller numbers than what they are parts of.
struct Unique {
  TermPtr term;  // without its own arguments: these are `parts`
  std::vector<size_t> parts;
  std::set<size_t> wholes;    // of which it is a part
  std::set<size_t> rules;     // in which it is evaluated in any case
  bool root = false;          // the value of a formula or of a let
  std::optional<size_t> let;  // its place among what is shared
};

class Between {
 public:
  explicit Between(const Op& op) : op_(op) {}

  NodeRules share() {
    for (const Argument& argument : op_.schema.arguments) taken_.insert(argument.name);
    for (size_t i = 0; i < op_.schema.results.size(); ++i) taken_.insert(op_.result_name(i));
    for (size_t rule = 0; rule < op_.reverse.size(); ++rule) read_rule(rule);
    choose();
    for (size_t id = 0; id < uniques_.size(); ++id) {
      if (!chosen_.count(id)) continue;
      TermPtr value = rebuilt(id, uniques_[id].rules);
      uniques_[id].let = result_.shared.size();
      result_.shared.push_back({free_name(), std::move(value), uniques_[id].rules});
    }
    for (size_t rule = 0; rule < op_.reverse.size(); ++rule) result_.rules.push_back(rewritten(rule));
    return std::move(result_);
  }

 private:
  void read_rule(size_t rule) {
    const Block& formula = op_.reverse[rule].formula;
    lets_.emplace_back();
    if (op_.reverse[rule].each) return;
    std::vector<size_t> roots;
    for (const Let& let : formula.lets) {
      taken_.insert(let.name);
      roots.push_back(number(let.value, lets_[rule]));
      lets_[rule].push_back(roots.back());
    }
    roots.push_back(number(formula.value, lets_[rule]));
    for (const size_t root : roots) {
      uniques_[root].root = true;
      mark(root, rule);
    }
  }

  size_t number(const TermPtr& term, const std::vector<size_t>& lets) {
    if (term->reads(Symbol::What::let)) return lets[term->symbol.index];
    std::vector<size_t> parts;
    for (const TermPtr& argument : term->arguments) parts.push_back(number(argument, lets));
    const auto [id, fresh] = numbers_.of(term, parts);
    if (!fresh) return id;
    for (const size_t part : parts) uniques_[part].wholes.insert(id);
    uniques_.push_back({term, std::move(parts), {}, {}, false, {}});
    return id;
  }

  void mark(size_t id, size_t rule) {
    if (!uniques_[id].rules.insert(rule).second) return;
    const size_t always = always_evaluated(*uniques_[id].term);
    for (size_t i = 0; i < always; ++i) mark(uniques_[id].parts[i], rule);
  }

  bool can_be_shared(const Unique& unique) const {
    return unique.rules.size() > 1 && may_be_shared(*unique.term) &&
           unique.term->op->name() != "segment_broadcast";  // its rows are read where they are, not written out
  }

  /// What stands alone somewhere, or in two places; what is a part of one shared call is computed there.
  void choose() {
    for (size_t id = uniques_.size(); id-- > 0;) {
      const Unique& unique = uniques_[id];
      const bool alone = unique.root || std::any_of(unique.wholes.begin(), unique.wholes.end(),
                                                    [&](size_t whole) { return !chosen_.count(whole) && !inner_.count(whole); });
      const size_t places = unique.wholes.size();
      if (can_be_shared(unique) && (alone || places > 1))
        chosen_.insert(id);
      else if (!alone && places == 1)
        inner_.insert(id);
    }
  }

  std::string free_name() {
    std::string name = "shared";
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("shared{}", i);
    return name;
  }

  TermPtr read_shared(size_t id) const {
    const size_t index = *uniques_[id].let;
    const Term& term = *uniques_[id].term;
    return read({Symbol::What::shared, index, result_.shared[index].name, Symbol::How::whole}, term.type, term.at);
  }

  /// The term, which these rules evaluate, over what is shared and computed for each of them; lets written out.
  TermPtr rebuilt(size_t id, const std::set<size_t>& rules) const {
    const Unique& unique = uniques_[id];
    if (unique.let && std::includes(unique.rules.begin(), unique.rules.end(), rules.begin(), rules.end())) return read_shared(id);
    auto part = unique.parts.begin();
    return with_arguments(unique.term, [&](const TermPtr&) { return rebuilt(*part++, rules); });
  }

  /// The same term of a rule, which keeps its lets.
  TermPtr over_lets(const TermPtr& term, size_t rule) {
    const size_t id = number(term, lets_[rule]);
    if (uniques_[id].let && uniques_[id].rules.count(rule)) return read_shared(id);  // else it is only in a branch
    return with_arguments(term, [&](const TermPtr& argument) { return over_lets(argument, rule); });
  }

  Rule rewritten(size_t index) {
    Rule rule = op_.reverse[index];
    if (result_.shared.empty() || rule.each) return rule;
    for (Let& let : rule.formula.lets) let.value = over_lets(let.value, index);
    rule.formula.value = over_lets(rule.formula.value, index);
    drop_unused(rule.formula);
    return rule;
  }

  static void drop_unused(Block& formula) {
    std::set<size_t> used;
    const auto see = [&](const Term& part) {
      if (part.reads(Symbol::What::let)) used.insert(part.symbol.index);
    };
    visit(*formula.value, see);
    for (size_t i = formula.lets.size(); i-- > 0;) {
      if (used.count(i)) visit(*formula.lets[i].value, see);
    }
    std::vector<size_t> place(formula.lets.size());
    std::vector<Let> kept;
    for (size_t i = 0; i < formula.lets.size(); ++i) {
      place[i] = kept.size();
      if (used.count(i)) kept.push_back(formula.lets[i]);
    }
    for (Let& let : kept) let.value = renumber(let.value, place);
    formula.value = renumber(formula.value, place);
    formula.lets = std::move(kept);
  }

  static TermPtr renumber(const TermPtr& term, const std::vector<size_t>& place) {
    if (term->reads(Symbol::What::let)) {
      Symbol symbol = term->symbol;
      symbol.index = place[symbol.index];
      return read(symbol, term->type, term->at);
    }
    return with_arguments(term, [&](const TermPtr& argument) { return renumber(argument, place); });
  }

  const Op& op_;
  std::set<std::string> taken_ = {"grad", "grads", "sink"};
  TermNumbers numbers_;
  std::vector<Unique> uniques_;
  std::vector<std::vector<size_t>> lets_;  // by rule, what each let is
  std::set<size_t> chosen_, inner_;        // shared; a part of one shared call and nothing else
  NodeRules result_;
};

}  // namespace

NodeRules share_between_rules(const Op& op) {
  if (op.reverse.size() < 2) return {{}, op.reverse};
  return Between(op).share();
}

}  // namespace opgen
