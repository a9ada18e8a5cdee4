#include "opgen/readers/aten/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/readers/aten/formula.h"
#include "opgen/text/strings.h"
#include "opgen/text/yaml_file.h"

namespace opgen::aten {
namespace {

class Reader {
 public:
  Reader(const YamlFile& file, Functions& functions, Records& records) : file_(file), functions_(functions), records_(records) {}

  Record record(const Tree& entry) {
    if (!entry.is_map()) file_.fail(entry, "a record wants 'key: value' pairs");
    Record record;
    const Tree name = entry["name"];
    if (!name) file_.fail(entry, "a record needs 'name', a schema");
    const Text text = file_.text(name, "name");
    record.at = text.at(0);
    record.schema = parse_schema(text);
    record.function = function_of(record);
    record.sets.push_back({"Default", {}, record.at});
    std::set<std::string> fields;
    for (const Branch& pair : entry.branches()) {
      const std::string field = file_.text(pair.key, "a key").value();
      if (!fields.insert(field).second) file_.fail(pair.key, fmt::format("'{}' stands twice", field));
      if (field == "name") continue;
      if (field == "output_differentiability")
        differentiability(pair.value, record);
      else if (field == "dispatch")
        dispatch(pair.value, record);
      else
        rule(pair, record, record.sets[0]);
    }
    if (entry["dispatch"] && !record.sets[0].rules.empty())
      file_.fail(entry["dispatch"], "rules stand inside 'dispatch' or outside, not both");
    if (entry["dispatch"]) record.sets.erase(record.sets.begin());
    return record;
  }

 private:
  const Function* function_of(const Record& record) const {
    const Schema& schema = record.schema;
    const std::string name = schema.overload.empty() ? schema.name : schema.name + "." + schema.overload;
    const Function* function = functions_.find(name);
    const auto source = functions_.by_autogen.find(name);
    if (!function && source == functions_.by_autogen.end())
      throw Problem(record.at, fmt::format("no function is named '{}'{}", name, did_you_mean(name, functions_.full_names())));
    const Function& other = function ? *function : *source->second;
    std::string why;
    if (!same_arguments(schema, other.schema, why))
      throw Problem(record.at, fmt::format("the schema differs from that at {}: {}", other.at.to_string(), why));
    if (!function) return functions_.generate(schema, record.at);
    if (schema.results.size() != other.schema.results.size())
      throw Problem(record.at, fmt::format("the schema differs from that at {}: it has {} results there, {} here",
                                           other.at.to_string(), other.schema.results.size(), schema.results.size()));
    return function;
  }

  void differentiability(const Tree& tree, Record& record) const {
    record.condition_at = tree.at();
    if (!tree.is_list()) file_.fail(tree, "'output_differentiability' is a list, True or False for each result");
    const size_t results = record.schema.results.size();
    for (const Branch& branch : tree.branches()) {
      const std::string flag = file_.text(branch.value, "output_differentiability").value();
      const bool yes = flag == "True" || flag == "true", no = flag == "False" || flag == "false";
      if (!yes && !no) {
        if (tree.size() != 1 || results != 1)
          file_.fail(branch.value, "a condition serves functions with one result; others want True or False for each");
        record.condition = parse_cpp_formula(file_.text(branch.value, "output_differentiability"));
        return;
      }
      record.output_differentiability.push_back(yes);
    }
    if (record.output_differentiability.size() != results)
      file_.fail(tree, fmt::format("'output_differentiability' has {} values for {} results",
                                   record.output_differentiability.size(), results));
  }

  void dispatch(const Tree& tree, Record& record) {
    if (!tree.is_map()) file_.fail(tree, "'dispatch' wants rules for each autograd dispatch key");
    for (const Branch& pair : tree.branches()) {
      const std::string key = file_.text(pair.key, "dispatch").value();
      if (key != "Default" && key.rfind("Autograd", 0) != 0)
        file_.fail(pair.key, fmt::format("'{}' is no autograd dispatch key: Default or Autograd..., as AutogradCUDA", key));
      for (const RuleSet& earlier : record.sets) {
        if (&earlier != record.sets.data() && earlier.key == key)
          file_.fail(pair.key, fmt::format("the rules for '{}' stand twice", key));
      }
      if (!pair.value.is_map()) file_.fail(pair.value, fmt::format("'{}' wants rules", key));
      RuleSet set{key, {}, pair.key.at()};
      for (const Branch& rule_pair : pair.value.branches()) {
        if (rule_pair.key.scalar() == "output_differentiability")
          differentiability(rule_pair.value, record);
        else
          rule(rule_pair, record, set);
      }
      record.sets.push_back(std::move(set));
    }
  }

  void rule(const Branch& pair, const Record& record, RuleSet& set) {
    Rule rule;
    const std::string keys = file_.text(pair.key, "a key").value();
    rule.keys = split(keys, ',');
    if (std::count(rule.keys.begin(), rule.keys.end(), "")) file_.fail(pair.key, "a name is missing beside ','");
    for (size_t i = 0; i < rule.keys.size(); ++i) {
      bool reverse = true;
      const size_t index = index_of(rule.keys[i], record, pair.key, reverse);
      if (i > 0 && reverse != rule.reverse) file_.fail(pair.key, "inputs and results cannot share a formula");
      rule.reverse = reverse;
      if (set.find(reverse, index)) file_.fail(pair.key, fmt::format("'{}' has two rules", rule.keys[i]));
      for (const size_t earlier : rule.of) {
        if (earlier == index) file_.fail(pair.key, fmt::format("'{}' stands twice in this key", rule.keys[i]));
      }
      rule.of.push_back(index);
    }
    value(pair.value, record, rule);
    set.rules.push_back(std::move(rule));
  }

  size_t index_of(const std::string& key, const Record& record, const Tree& at, bool& reverse) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < record.schema.arguments.size(); ++i) {
      names.push_back(record.schema.arguments[i].name);
      if (names.back() != key) continue;
      reverse = true;
      return i;
    }
    for (size_t i = 0; i < record.function->schema.results.size(); ++i) {
      names.push_back(record.function->result_name(i));
      const bool numbered = record.function->schema.results.size() > 1 && key == "result" + std::to_string(i);
      if (names.back() != key && !numbered) continue;
      reverse = false;
      return i;
    }
    file_.fail(at,
               fmt::format("'{}' is neither an input nor a result of '{}'{}", key, record.schema.name, did_you_mean(key, names)));
  }

  void value(const Tree& tree, const Record& record, Rule& rule) {
    const Text text = file_.text(tree, rule.keys[0]);
    rule.at = text.at(0);
    const std::string& word = text.value();
    if (word == "non_differentiable") rule.kind = Rule::Kind::non_differentiable;
    if (word == "auto_linear") rule.kind = Rule::Kind::auto_linear;
    if (word == "auto_element_wise") rule.kind = Rule::Kind::auto_element_wise;
    if (rule.is(Rule::Kind::non_differentiable) && !rule.reverse)
      throw Problem(rule.at, "results are made non-differentiable by 'output_differentiability'");
    if (!rule.is(Rule::Kind::formula) && !rule.is(Rule::Kind::non_differentiable)) {
      if (rule.reverse) throw Problem(rule.at, fmt::format("'{}' is a forward rule; '{}' is an input", word, rule.keys[0]));
      if (rule.is(Rule::Kind::auto_element_wise) && record.function->kind == Function::Kind::in_place)
        throw Problem(rule.at, "'auto_element_wise' is for functions that write nothing; an in-place one wants a formula");
    }
    if (!rule.is(Rule::Kind::formula)) return;
    for (size_t i = 0; rule.reverse && i < rule.of.size(); ++i) {
      if (!record.schema.arguments[rule.of[i]].type.is_tensor_like())
        throw Problem(rule.at, fmt::format("'{}' is no tensor, so it has no gradient", rule.keys[i]));
    }
    ++records_.formulas;
    try {
      rule.tree = parse_cpp_formula(text);
      ++records_.trees;
    } catch (const Problem& problem) {
      rule.not_a_tree = problem.message();
      rule.at = problem.at();
    }
  }

  const YamlFile& file_;
  Functions& functions_;
  Records& records_;
};

}  // namespace

const Rule* RuleSet::find(bool reverse, size_t index) const {
  for (const Rule& rule : rules) {
    if (rule.reverse == reverse && std::find(rule.of.begin(), rule.of.end(), index) != rule.of.end()) return &rule;
  }
  return nullptr;
}

Records read_records(const std::string& path, const std::string& name, Functions& functions, Problems& problems) {
  Records records;
  attempt(problems, [&] {
    const YamlFile file(path, name);
    if (!file.root().is_list()) file.fail(file.root(), "a file of derivatives is a list of records");
    std::map<const Function*, Position> seen;
    Reader reader(file, functions, records);
    for (const Branch& branch : file.root().branches()) {
      ++records.entries;
      attempt(problems, [&] {
        Record record = reader.record(branch.value);
        const auto [earlier, added] = seen.emplace(record.function, record.at);
        if (!added)
          throw Problem(record.at, fmt::format("'{}' has two records; the first is at {}", record.function->full_name(),
                                               earlier->second.to_string()));
        records.all.push_back(std::move(record));
      });
    }
  });
  return records;
}

}  // namespace opgen::aten
