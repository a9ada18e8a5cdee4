#include "opgen/text/json.h"
#include "opgen/readers/aten/report.h"

namespace opgen::aten {
namespace {

std::vector<std::string> names_of(const std::vector<const Function*>& functions) {
  std::vector<std::string> names;
  for (const Function* function : functions) names.push_back(function->full_name());
  return names;
}

const char* kind_name(Rule::Kind kind) {
  switch (kind) {
    case Rule::Kind::formula:
      return "formula";
    case Rule::Kind::non_differentiable:
      return "non_differentiable";
    case Rule::Kind::auto_linear:
      return "auto_linear";
    case Rule::Kind::auto_element_wise:
      return "auto_element_wise";
  }
  return "";
}

void write(JsonWriter& json, const CheckedRule& checked) {
  const Rule& rule = *checked.rule;
  json.open('{').list("of", rule.keys).text("direction", rule.reverse ? "reverse" : "forward").text("kind", kind_name(rule.kind));
  json.text("at", rule.at.to_string());
  if (checked.tree) json.text("tree", to_string(checked.tree));
  if (checked.typed.type) json.text("type", checked.typed.type->to_string());
  json.key("calls").open('[');
  for (const Callee& callee : checked.typed.callees)
    json.open('{')
        .text("name", callee.name)
        .text("type", callee.result.to_string())
        .key("schema")
        .boolean(callee.schema)
        .close('}');
  json.close(']').close('}');
}

void write(JsonWriter& json, const CheckedSet& set) {
  json.open('{').text("key", set.rules->key).list("inputs", set.inputs).text("forward", set.forward);
  json.key("saves").open('[');
  for (const Saved& saved : set.saved) {
    json.open('{').text("name", saved.name).text("from", saved.result ? "result" : "input").key("whole").boolean(saved.whole);
    json.list("properties", saved.properties).list("only_for", saved.only_for).close('}');
  }
  json.close(']').list("clones", set.original).key("rules").open('[');
  for (const CheckedRule& rule : set.checked) write(json, rule);
  json.close(']').close('}');
}

void write(JsonWriter& json, const CheckedRecord& entry, const Families& families) {
  const Function& function = *entry.record->function;
  const Family& family = families.family(function);
  json.open('{').text("name", function.full_name()).text("schema", function.schema.to_string());
  json.text("at", entry.record->at.to_string()).text("function_at", function.at.to_string());
  json.list("functional", names_of(family.functional))
      .list("in_place", names_of(family.in_place))
      .list("out", names_of(family.out));
  json.list("mutable", names_of(family.mutable_args))
      .list("foreach", names_of(family.foreach))
      .list("generated", family.generated);
  json.list("outputs", entry.outputs);
  if (entry.record->condition) json.text("condition", to_string(entry.record->condition));
  json.key("sets").open('[');
  for (const CheckedSet& set : entry.sets) write(json, set);
  json.close(']').close('}');
}

}  // namespace

std::string json_of(const Checked& checked, const Problems& problems) {
  JsonWriter json;
  const Counts& c = checked.counts;
  json.open('{').key("counts").open('{');
  const auto count = [&](const char* name, int number) { json.key(name).number(number); };
  count("schema_entries", c.schema_entries);
  count("schemas", c.schemas);
  count("families", c.families);
  count("foreach", c.foreach);
  count("record_entries", c.record_entries);
  count("records", c.records);
  count("served", c.served);
  count("unserved", c.unserved);
  count("formulas", c.formulas);
  count("trees", c.trees);
  count("typed_formulas", c.typed_formulas);
  count("calls", c.calls);
  count("typed_calls", c.typed_calls);
  count("schema_calls", c.schema_calls);
  json.close('}').key("entries").open('[');
  for (const CheckedRecord& entry : checked.entries) write(json, entry, checked.families);
  json.close(']').key("not_typed").open('[');
  for (const NotTyped& one : checked.not_typed)
    json.open('{').text("at", one.at.to_string()).text("formula", one.formula).text("reason", one.reason).close('}');
  json.close(']').list("lists_alone", names_of(checked.lists_alone)).list("problems", problems).close('}');
  return json.take() + "\n";
}

}  // namespace opgen::aten
