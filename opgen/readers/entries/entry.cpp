#include "opgen/readers/entries/entry.h"

#include <fmt/format.h>

#include "opgen/text/strings.h"

namespace opgen {
namespace {

const std::vector<std::string> kFields = {"func",       "doc",    "pointwise", "kernel", "native",    "composite",
                                          "derivative", "result", "check",     "wrap",   "strided",   "dtypes",
                                          "variants",   "nested", "samples",   "tests",  "recompute", "linear",
                                          "metadata",   "math",   "autocast",  "host",   "permuted",  "cpu_only"};

}  // namespace

void check_samples_list(const YamlFile& file, const Tree& node) {
  const bool name = node.is_scalar() && !node.scalar().empty();
  if (!name && (!node.is_list() || node.size() == 0))
    file.fail(node, "samples are the name of a set, or a list [{argument: value}, ...] with at least one");
}

std::shared_ptr<Entry> EntryReader::load() {
  if (!node_.is_map() || !node_["func"]) file_.fail(node_, "an entry begins with 'func: name(arguments) -> results'");
  entry_ = std::make_shared<Entry>();
  const Text func = file_.text(node_["func"], "func");
  entry_->at = func.at(0);
  entry_->schema = parse_schema(func, types_);
  file_.check_keys(node_, fmt::format("the entry of '{}'", entry_->name()), kFields);
  if (node_["doc"]) entry_->doc = file_.sentence(node_["doc"], "doc");
  body();
  math();
  result_rules();
  checks();
  wraps();
  strided();
  permuted();
  linear();
  metadata();
  host();
  cpu_only();
  dtypes();
  autocast();
  variants();
  derivative();
  recompute();
  nested();
  samples();
  return entry_;
}

Formula EntryReader::formula(const Tree& node, const std::string& field) const {
  Formula formula = parse_formula(file_.text(node, field));
  for (const auto& [name, value] : formula.lets) {
    bool taken = entry_->schema.find(name) != nullptr || entry_->schema.find_group(name) != nullptr || name == "grad" ||
                 name == "grads" || name == "sink" || name == "level" || name == "node";
    for (size_t i = 0; i < entry_->schema.results.size(); ++i) taken = taken || entry_->result_name(i) == name;
    if (taken) throw Problem(value->at, fmt::format("'let' may not define '{}', which means something already", name));
  }
  return formula;
}

ExprPtr EntryReader::expression(const Tree& node, const std::string& field) const { return inline_lets(formula(node, field)); }

std::vector<std::string> EntryReader::slots_of(const std::string& name) const {
  const Schema& schema = entry_->schema;
  std::vector<std::string> slots;
  const auto add = [&](const auto& all, const std::vector<Group>& groups) {
    for (const Group& group : groups) {
      for (size_t i = group.first; i < group.first + group.count(); ++i) {
        if (all[i].path == name || (group.name == name && all[i].type.is_tensor())) slots.push_back(all[i].name);
      }
    }
  };
  add(schema.arguments, schema.groups);
  add(schema.results, schema.result_groups);
  return slots.empty() ? std::vector{name} : slots;
}

std::string EntryReader::canonical(const std::string& name) const {
  for (size_t i = 0; i < entry_->schema.results.size(); ++i) {
    if (name == "result" + std::to_string(i)) return entry_->result_name(i);
  }
  return name;
}

}  // namespace opgen
