#include "opgen/readers/aten/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "opgen/text/strings.h"

namespace opgen::aten {
namespace {

std::string names(const std::vector<const Function*>& functions) {
  std::vector<std::string> all;
  for (const Function* function : functions) all.push_back(function->full_name());
  return join(all);
}

std::string saved_text(const Saved& saved) {
  std::string text = saved.name;
  if (!saved.properties.empty()) text += fmt::format(" ({})", join(saved.properties));
  if (!saved.only_for.empty()) text += fmt::format(" for {}", join(saved.only_for));
  return text;
}

std::string rule_text(const CheckedRule& checked) {
  const Rule& rule = *checked.rule;
  const std::string keys = join(rule.keys);
  const char* direction = rule.reverse ? "reverse" : "forward";
  if (rule.is(Rule::Kind::non_differentiable)) return fmt::format("  constant {}\n", keys);
  const std::string tree = checked.tree ? to_string(checked.tree) : "not a tree";
  const std::string word = rule.is(Rule::Kind::auto_linear)         ? "auto_linear: "
                           : rule.is(Rule::Kind::auto_element_wise) ? "auto_element_wise: "
                                                                    : "";
  return fmt::format("  {}  {} = {}{}\n", direction, keys, word, tree);
}

void add_family(const CheckedRecord& entry, const Checked& checked, std::string& text) {
  const Function& function = *entry.record->function;
  const Family& family = checked.families.family(function);
  const auto line = [&](const char* word, const std::string& what) {
    if (!what.empty()) fmt::format_to(std::back_inserter(text), "  {:<8} {}\n", word, what);
  };
  if (function.kind == Function::Kind::functional) line("in place", names(family.in_place));
  line("out", names(family.out));
  line("mutable", names(family.mutable_args));
  line("made", join(family.generated));
  line("foreach", names(family.foreach));
}

void add_set(const CheckedSet& set, const CheckedRecord& entry, std::string& text) {
  auto out = std::back_inserter(text);
  if (entry.sets.size() > 1 || set.rules->key != "Default") fmt::format_to(out, "  for {}\n", set.rules->key);
  if (!set.inputs.empty()) fmt::format_to(out, "  inputs   {}\n", join(set.inputs));
  std::vector<std::string> saved;
  for (const Saved& one : set.saved) saved.push_back(saved_text(one));
  if (!saved.empty()) fmt::format_to(out, "  saves    {}\n", join(saved));
  if (!set.original.empty()) fmt::format_to(out, "  clones   {}\n", join(set.original));
  for (const CheckedRule& rule : set.checked) text += rule_text(rule);
}

double percent(int part, int whole) { return whole == 0 ? 100.0 : 100.0 * part / whole; }

std::string summary(const Checked& checked) {
  const Counts& c = checked.counts;
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "schemas   {} of {} read, in {} families; {} of them on lists, element by element\n", c.schemas,
                 c.schema_entries, c.families, c.foreach);
  if (!checked.lists_alone.empty())
    fmt::format_to(out, "          on lists, without an op for an element: {}\n", names(checked.lists_alone));
  fmt::format_to(out, "records   {} of {} read; they serve {} functions; {} with kernels of their own have none\n", c.records,
                 c.record_entries, c.served, c.unserved);
  fmt::format_to(out, "formulas  {} of {} are trees ({:.1f} %), {} typed without a gap\n", c.trees, c.formulas,
                 percent(c.trees, c.formulas), c.typed_formulas);
  fmt::format_to(out, "calls     {} of {} typed ({:.1f} %), {} of functions of the file\n", c.typed_calls, c.calls,
                 percent(c.typed_calls, c.calls), c.schema_calls);
  return text;
}

}  // namespace

std::string text_of(const Checked& checked, bool entries) {
  std::string text;
  for (const CheckedRecord& entry : checked.entries) {
    if (!entries) break;
    const Function& function = *entry.record->function;
    fmt::format_to(std::back_inserter(text), "{}\n  at       {}, {}\n", function.schema.to_string(), entry.record->at.to_string(),
                   function.at.to_string());
    add_family(entry, checked, text);
    if (!entry.outputs.empty()) fmt::format_to(std::back_inserter(text), "  outputs  {}\n", join(entry.outputs));
    if (entry.record->condition) fmt::format_to(std::back_inserter(text), "  if       {}\n", to_string(entry.record->condition));
    for (const CheckedSet& set : entry.sets) add_set(set, entry, text);
    text += "\n";
  }
  for (const NotTyped& one : checked.not_typed)
    fmt::format_to(std::back_inserter(text), "{}: not typed: {}: {}\n", one.at.to_string(), one.formula, readable(one.reason));
  return text + summary(checked);
}

}  // namespace opgen::aten
