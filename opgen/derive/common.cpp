#include "opgen/derive/common.h"

#include <fmt/format.h>

#include <map>

#include "opgen/ir/build.h"
#include "opgen/ir/equal.h"
#include "opgen/ir/op.h"

namespace opgen {
namespace {

/// A term and all that equal it. Numbered so that parts come before what they are parts of.
struct Unique {
  TermPtr term;
  std::vector<size_t> parts;
  int places = 0;       // parts of other terms, or lets or values, that it is
  bool always = false;  // whether it is evaluated in any case
};

class Sharing {
 public:
  Sharing(const Block& formula, const std::set<std::string>& taken) : formula_(formula), taken_(taken) {}

  Block share() {
    for (const Let& let : formula_.lets) {
      roots_.push_back(number(let.value));
      taken_.insert(let.name);
    }
    roots_.push_back(number(formula_.value));
    for (const size_t root : roots_) {
      ++uniques_[root].places;
      mark(root);
    }
    for (size_t i = 0; i < roots_.size(); ++i) emit(i);
    return std::move(result_);
  }

 private:
  size_t number(const TermPtr& term) {
    std::vector<size_t> parts;
    for (const TermPtr& argument : term->arguments) parts.push_back(number(argument));
    const auto [id, fresh] = numbers_.of(term, parts);
    if (!fresh) return id;
    for (const size_t part : parts) ++uniques_[part].places;
    uniques_.push_back({term, std::move(parts), 0, false});
    return id;
  }

  void mark(size_t id) {
    if (uniques_[id].always) return;
    uniques_[id].always = true;
    const size_t always = always_evaluated(*uniques_[id].term);
    for (size_t i = 0; i < always; ++i) mark(uniques_[id].parts[i]);
  }

  bool is_shared(size_t id) const {
    const Unique& unique = uniques_[id];
    return unique.places > 1 && unique.always && may_be_shared(*unique.term);
  }

  std::string free_name() {
    std::string name = "common";
    for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("common{}", i);
    return name;
  }

  void add_let(size_t id, const std::string& name, TermPtr value) {
    lets_[id] = result_.lets.size();
    result_.lets.push_back({name, std::move(value)});
  }

  TermPtr read_let(size_t index, const Term& of) const {
    return read({Symbol::What::let, index, result_.lets[index].name, Symbol::How::whole}, of.type, of.at);
  }

  /// The term over lets; what it shares is declared first. `itself`: it is what a let is about to name.
  TermPtr rebuilt(size_t id, bool itself) {
    if (const auto let = lets_.find(id); let != lets_.end()) return read_let(let->second, *uniques_[id].term);
    if (!itself && is_shared(id)) {
      TermPtr value = rebuilt(id, true);
      add_let(id, free_name(), std::move(value));
      return read_let(lets_.at(id), *uniques_[id].term);
    }
    const TermPtr term = uniques_[id].term;
    if (term->reads(Symbol::What::let)) {
      Symbol symbol = term->symbol;
      symbol.index = renumbered_[symbol.index];
      return read(symbol, term->type, term->at);
    }
    auto part = uniques_[id].parts.begin();
    return with_arguments(term, [&](const TermPtr&) { return rebuilt(*part++, false); });
  }

  void emit(size_t i) {
    const bool last = i + 1 == roots_.size();
    const bool declared = lets_.count(roots_[i]) > 0;
    TermPtr term = rebuilt(roots_[i], true);
    if (last) {
      result_.value = std::move(term);
      return;
    }
    renumbered_.push_back(result_.lets.size());
    if (declared)
      result_.lets.push_back({formula_.lets[i].name, std::move(term)});
    else
      add_let(roots_[i], formula_.lets[i].name, std::move(term));
  }

  const Block& formula_;
  std::set<std::string> taken_;
  TermNumbers numbers_;
  std::vector<Unique> uniques_;
  std::vector<size_t> roots_;
  std::map<size_t, size_t> lets_;   // unique -> its let in the result
  std::vector<size_t> renumbered_;  // let of the formula -> of the result
  Block result_;
};

}  // namespace

Block share_common_calls(const Block& formula, const std::set<std::string>& taken) { return Sharing(formula, taken).share(); }

}  // namespace opgen
