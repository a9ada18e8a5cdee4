#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "opgen/readers/entries/load.h"

namespace opgen {
namespace {

/// A formula of an entry that takes `dim`, over it or over the rows of each component of `ragged`.
class Reading {
 public:
  Reading(const Library& library, bool ragged) : library_(library), ragged_(ragged) {}

  void each_formula(Entry& entry) const {
    whole(entry.composite);
    for (auto& [device, formula] : entry.composite_on) whole(formula);
    for (ExprPtr& rule : entry.result_rules) rule = of(rule);
    for (auto* rules : {&entry.reverse, &entry.forward}) {
      for (WrittenRule& rule : *rules) {
        whole(rule.formula);
        if (rule.when) rule.when = of(rule.when);
      }
    }
  }

 private:
  void whole(Formula& formula) const {
    for (auto& [name, value] : formula.lets) value = of(value);
    if (formula.body) formula.body = of(formula.body);
  }

  static bool is_dim(const ExprPtr& node) {
    return node->is_name("dim") || (node->is(ExprKind::list) && node->args.size() == 1 && node->args[0]->is_name("dim"));
  }

  ExprPtr of(const ExprPtr& expr) const {
    return rewrite(expr, [this](const ExprPtr& node) -> ExprPtr {
      if (ragged_ && is_dim(node)) return make_expr(ExprKind::name, "ragged", {}, node->at);
      if (ragged_ && node->is_name("indices")) return make_expr(ExprKind::name, "rows", {}, node->at);
      if (!node->is(ExprKind::call)) return nullptr;
      for (const Word& word : library_.words) {
        const ExprPtr& meaning = ragged_ ? word.ragged : word.dims;
        if (meaning && node->is_call(word.head->text) && node->args.size() == word.head->args.size())
          return fill(meaning, word.head->args, *node);
      }
      if (!ragged_ || std::none_of(node->args.begin(), node->args.end(), is_dim)) return nullptr;
      for (const Entry* op : library_.overloads_of(node->text)) {
        if (!op->nested.segment.empty()) return ragged_form(*op, *node);
      }
      return nullptr;
    });
  }

  /// The meaning of a word, with what a call gives in the place of its parameters.
  ExprPtr fill(const ExprPtr& meaning, const std::vector<ExprPtr>& parameters, const Expr& call) const {
    return rewrite(meaning, [&](const ExprPtr& node) -> ExprPtr {
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (node->is_name(parameters[i]->text)) return of(call.args[i]);
      }
      return nullptr;
    });
  }

  /// The call of an op as that of its ragged form; with keepdim=true, its rows repeated.
  ExprPtr ragged_form(const Entry& op, const Expr& call) const {
    std::vector<ExprPtr> passed;
    std::vector<std::string> keys;
    bool repeated = false;
    for (size_t i = 0; i < call.args.size(); ++i) {
      const std::vector<Argument>& arguments = op.schema.arguments;
      if ((call.keys[i].empty() && i < arguments.size() ? arguments[i].name : call.keys[i]) == "keepdim") {
        repeated = call.args[i]->is_name("true");
      } else {
        passed.push_back(of(call.args[i]));
        keys.push_back(call.keys[i] == "dim" ? "ragged" : call.keys[i]);
      }
    }
    const auto form = std::make_shared<Expr>(ExprKind::call, op.nested.segment, std::move(passed), std::move(keys), call.at);
    if (!repeated) return form;
    return make_expr(ExprKind::call, "segment_broadcast", {form, make_expr(ExprKind::name, "ragged", {}, call.at)}, call.at);
  }

  const Library& library_;
  bool ragged_;
};

std::string ragged_result_name(const std::string& name) { return name == "indices" ? "rows" : name; }

std::shared_ptr<Entry> ragged_form(const Entry& entry, const Library& library) {
  if (library.has(entry.nested.segment))
    throw Problem(entry.nested.at, fmt::format("'{}' is an op already, and the ragged form of '{}' would be called so",
                                               entry.nested.segment, entry.name()));
  auto form = std::make_shared<Entry>(entry);
  form->schema.name = entry.nested.segment;
  form->schema.overload.clear();
  std::erase_if(form->schema.arguments, [](const Argument& argument) { return argument.name == "keepdim"; });
  for (Argument& argument : form->schema.arguments) {
    argument.keyword_only = false;
    if (argument.name != "dim") continue;
    argument.name = "ragged";
    argument.type = Type();
    argument.type.base = Base::ragged;
    argument.default_value.reset();
  }
  for (Result& result : form->schema.results) result.name = ragged_result_name(result.name);
  std::transform(form->recompute.begin(), form->recompute.end(), form->recompute.begin(), ragged_result_name);
  for (auto* rules : {&form->reverse, &form->forward}) {
    for (WrittenRule& rule : *rules) std::transform(rule.keys.begin(), rule.keys.end(), rule.keys.begin(), ragged_result_name);
  }
  for (const std::string dim : {"over dim", "along dim"}) {
    if (const size_t at = form->doc.find(dim); at != std::string::npos)
      form->doc.replace(at, dim.size(), "over the rows of each component");
  }
  form->kernels = entry.ragged_kernels;
  form->permuted.clear();
  form->method = form->inplace = form->out = form->strided_all = false;
  std::erase_if(form->checks, [](const WrittenCheck& check) { return mentions(check.condition, "dim"); });
  form->nested = NestedRule();
  form->nested.kind = NestedRule::Kind::error;
  form->nested.error =
      entry.nested.error.empty() ? fmt::format("write {} over the ragged dim", entry.name()) : entry.nested.error;
  form->samples = entry.nested_samples;
  if (const auto usual = library.sample_sets.find("ragged_rows"); !form->samples && usual != library.sample_sets.end())
    form->samples = usual->second;
  form->nested_samples = Tree();
  Reading(library, true).each_formula(*form);
  return form;
}

}  // namespace

void add_ragged_forms(Library& library, Problems& problems) {
  std::vector<std::shared_ptr<Entry>> entries;
  for (const auto& entry : library.entries) {
    entries.push_back(entry);
    if (entry->has_ragged_form) attempt(problems, [&] { entries.push_back(ragged_form(*entry, library)); });
  }
  for (const auto& entry : library.entries) {
    if (entry->has_ragged_form) entry->nested_samples = Tree();
    attempt(problems, [&] { Reading(library, false).each_formula(*entry); });
  }
  library.entries = std::move(entries);
}

}  // namespace opgen
