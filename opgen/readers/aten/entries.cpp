#include "opgen/readers/aten/entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "opgen/readers/aten/formula.h"
#include "opgen/text/strings.h"
#include "opgen/text/yaml_file.h"

namespace opgen::aten {
namespace {

/// name(parameters) = value.
struct Definition {
  std::vector<std::string> parameters;
  ExprPtr value;
};

/// Constants that formulas know by name, to the precision of a double.
const std::map<std::string, const char*> kNumbers = {{"pi", "3.141592653589793"},
                                                     {"M_E", "2.718281828459045"},
                                                     {"M_LN2", "0.6931471805599453"},
                                                     {"M_LN10", "2.302585092994046"},
                                                     {"M_SQRT2", "1.4142135623730951"}};

/// A tree as YAML in one line.
std::string flow(const Tree& tree) {
  std::vector<std::string> parts;
  for (const Branch& branch : tree.branches())
    parts.push_back((tree.is_map() ? branch.key.scalar() + ": " : "") + flow(branch.value));
  if (tree.is_map()) return "{" + join(parts) + "}";
  if (tree.is_list()) return "[" + join(parts) + "]";
  return tree.scalar().find_first_of(":{}[],#'\" ") == std::string::npos ? tree.scalar() : quote(tree.scalar());
}

/// A line of YAML that ends in a quoted text, broken at blanks into lines of at most 120 columns: a quoted text reads as one
/// line.
std::string fold_line(const std::string& line) {
  constexpr size_t kColumns = 120;
  std::string text;
  size_t start = 0;
  while (line.size() - start > kColumns) {
    const size_t blank = line.rfind(' ', start + kColumns);
    if (blank == std::string::npos || blank <= start) break;
    text += line.substr(start, blank - start) + "\n       ";  // and the blank
    start = blank;
  }
  return text + line.substr(start) + "\n";
}

class Layer {
 public:
  Layer(const Checked& checked, const YamlFile& file, const std::string& from) : checked_(checked), from_(from) {
    file.check_keys(file.root(), "a layer", {"prefix", "definitions", "ops"});
    if (!file.root()["prefix"]) file.fail(file.root(), "a layer needs a 'prefix' for its ops");
    prefix_ = file.text(file.root()["prefix"], "prefix").value();
    for (const Branch& branch : file.root()["definitions"].branches()) define(file.text(branch.value, "definitions"));
    const Tree ops = file.root()["ops"];
    if (!ops.is_list()) file.fail(file.root(), "a layer names its 'ops' in a list");
    for (const Branch& branch : ops.branches()) choose(file, branch.value);
  }

  std::string entries() const {
    std::string text =
        fmt::format("# Made by `opgen convert` from {}. Values: functions written by hand on the ops of the base.\n", from_);
    for (const Chosen& one : chosen_) text += "\n" + entry(one);
    return text;
  }

 private:
  struct Chosen {
    const CheckedRecord* record;
    Tree fields;
  };

  void define(const Text& text) {
    const size_t equals = text.value().find('=');
    if (equals == std::string::npos) throw Problem(text.at(0), "a definition is 'name(parameters) = value'");
    const ExprPtr head = parse_cpp_formula(Text(text.value().substr(0, equals), text.at(0)));
    if (!head->is(ExprKind::call)) throw Problem(text.at(0), "a definition is 'name(parameters) = value'");
    Definition definition;
    for (const ExprPtr& parameter : head->args) {
      if (!parameter->is(ExprKind::name)) throw Problem(text.at(0), "the parameters of a definition are names");
      definition.parameters.push_back(parameter->text);
    }
    definition.value = parse_cpp_formula(Text(text.value().substr(equals + 1), text.at(equals + 1)));
    definitions_[head->text].push_back(std::move(definition));
  }

  void choose(const YamlFile& file, const Tree& tree) {
    if (!tree.is_map() || !tree["op"]) file.fail(tree, "an op of a layer is {op: name, samples: ...}");
    const std::string name = file.text(tree["op"], "op").value();
    for (const CheckedRecord& entry : checked_.entries) {
      if (entry.record->function->full_name() != name) continue;
      if (!names_.insert(name).second) file.fail(tree["op"], fmt::format("'{}' is chosen twice", name));
      chosen_.push_back({&entry, tree});
      return;
    }
    std::vector<std::string> names;
    for (const CheckedRecord& entry : checked_.entries) names.push_back(entry.record->function->full_name());
    file.fail(tree["op"], fmt::format("no record is named '{}'{}", name, did_you_mean(name, names)));
  }

  std::string entry(const Chosen& one) const {
    const Record& record = *one.record->record;
    Schema schema = record.schema;
    // Overloads are told apart by their arguments; one alone needs no name.
    const auto same_name = [&](const Chosen& other) { return other.record->record->schema.name == schema.name; };
    if (std::count_if(chosen_.begin(), chosen_.end(), same_name) == 1) schema.overload.clear();
    schema.name = prefix_ + schema.name;
    for (Argument& argument : schema.arguments) argument.alias.reset();
    for (Result& result : schema.results) result.alias.reset();
    std::string text = fmt::format("- func: {}\n", schema.to_string());
    text += fmt::format("  doc: {} of {}, with the derivatives that stand there.\n", record.function->full_name(),
                        record.at.file.text());
    text += "  native: true\n";
    for (const Branch& field : one.fields.branches()) {
      if (field.key.scalar() != "op") text += fmt::format("  {}: {}\n", field.key.scalar(), flow(field.value));
    }
    text += "  derivative:\n";
    for (const CheckedSet& set : one.record->sets) {
      if (set.rules->key != "Default") {
        text += fmt::format("    # {}: left out, for a derivative is one for all devices\n", set.rules->key);
        continue;
      }
      for (const CheckedRule& rule : set.checked) text += rule_text(*one.record, set, rule);
    }
    return text;
  }

  std::string rule_text(const CheckedRecord& record, const CheckedSet& set, const CheckedRule& rule) const {
    const std::string keys = join(rule.rule->keys);
    if (rule.rule->is(Rule::Kind::non_differentiable)) return fmt::format("    {}: non_differentiable\n", keys);
    if (rule.rule->is(Rule::Kind::auto_linear)) return fmt::format("    {}: auto_linear\n", keys);
    if (!rule.tree)
      throw Problem(rule.rule->at, fmt::format("'{}' has no tree, so it can be no entry", record.record->function->full_name()));
    ExprPtr tree = translate(rule.tree, set, *rule.rule);
    const std::vector<Argument>& arguments = record.record->schema.arguments;
    // The engine of the base does not sum a gradient over the dims that an input was broadcast along.
    const bool one = rule.rule->reverse && rule.rule->of.size() == 1 && arguments[rule.rule->of[0]].type.is_tensor();
    if (one && set.inputs.size() > 1) {
      const ExprPtr input = make_expr(ExprKind::name, rule.rule->keys[0], {}, rule.rule->at);
      const ExprPtr sizes = make_expr(ExprKind::method, "sizes", {input}, rule.rule->at);
      tree = make_expr(ExprKind::call, "sum_to", {tree, sizes}, rule.rule->at);
    }
    return fold_line(fmt::format("    {}: {}", keys, quote(to_string(tree))));
  }

  /// Calls of chosen ops by the place of the call: which overload it is was found when the formula was typed.
  std::map<std::pair<int, int>, const Function*> calls_of_layer(const CheckedSet& set) const {
    std::map<std::pair<int, int>, const Function*> calls;
    for (const CheckedRule& rule : set.checked) {
      for (const Callee& callee : rule.typed.callees) {
        if (callee.schema && names_.count(callee.name) > 0)
          calls[{callee.at.line, callee.at.column}] = checked_.functions.find(callee.name);
      }
    }
    return calls;
  }

  /// What a method is called on serves as `self`, wherever that stands.
  ExprPtr call_of_layer(const Expr& node, std::vector<ExprPtr> args, const Function& function) const {
    const auto& arguments = function.schema.arguments;
    for (size_t i = 1; node.is(ExprKind::method) && i < arguments.size() && i < args.size(); ++i) {
      if (arguments[i].name == "self")
        std::rotate(args.begin(), args.begin() + 1, args.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    return make_expr(ExprKind::call, prefix_ + function.schema.name, std::move(args), node.at);
  }

  ExprPtr translate(const ExprPtr& tree, const CheckedSet& set, const Rule& rule) const {
    const auto layer = calls_of_layer(set);
    const auto walk = [&](const auto& self, const ExprPtr& node) -> ExprPtr {
      if (node->is(ExprKind::index) && node->args[0]->is_name("grad_input_mask")) return wants(node, rule);
      if (const auto number = kNumbers.find(node->text); node->is(ExprKind::name) && number != kNumbers.end())
        return make_expr(ExprKind::number, number->second, {}, node->at);
      std::vector<ExprPtr> args;
      for (const ExprPtr& argument : node->args) args.push_back(self(self, argument));
      if (node->is(ExprKind::method) && node->text == "scalar_type") return make_expr(ExprKind::method, "dtype", args, node->at);
      if (!node->is(ExprKind::call) && !node->is(ExprKind::method))
        return std::make_shared<Expr>(node->kind, node->text, std::move(args), node->keys, node->at);
      if (const auto own = layer.find({node->at.line, node->at.column}); own != layer.end())
        return call_of_layer(*node, std::move(args), *own->second);
      if (const Definition* definition = definition_of(node->text, args.size())) {
        const ExprPtr value = rewrite(definition->value, [&](const ExprPtr& part) -> ExprPtr {
          for (size_t i = 0; i < args.size(); ++i) {
            if (part->is_name(definition->parameters[i])) return args[i];
          }
          return nullptr;
        });
        return value;
      }
      return std::make_shared<Expr>(node->kind, node->text, std::move(args), node->keys, node->at);
    };
    return walk(walk, tree);
  }

  static ExprPtr wants(const ExprPtr& node, const Rule& rule) {
    const std::optional<int64_t> number = node->args[1]->is(ExprKind::number) ? whole_number(node->args[1]->text) : std::nullopt;
    if (!number || *number < 0 || *number >= static_cast<int64_t>(rule.keys.size()))
      throw Problem(node->at, fmt::format("grad_input_mask has {} elements", rule.keys.size()));
    return make_expr(ExprKind::call, "wants", {make_expr(ExprKind::name, rule.keys[static_cast<size_t>(*number)], {}, node->at)},
                     node->at);
  }

  const Definition* definition_of(const std::string& name, size_t arguments) const {
    const auto found = definitions_.find(name);
    if (found == definitions_.end()) return nullptr;
    for (const Definition& definition : found->second) {
      if (definition.parameters.size() == arguments) return &definition;
    }
    return nullptr;
  }

  const Checked& checked_;
  std::string from_, prefix_;
  std::map<std::string, std::vector<Definition>> definitions_;
  std::vector<Chosen> chosen_;
  std::set<std::string> names_;
};

}  // namespace

std::string entries_of(const Checked& checked, const File& layer, const std::string& from, Problems& problems) {
  std::string entries;
  attempt(problems, [&] { entries = Layer(checked, YamlFile(layer.path, layer.name), from).entries(); });
  return entries;
}

}  // namespace opgen::aten
