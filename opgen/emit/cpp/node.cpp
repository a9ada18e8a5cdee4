#include "opgen/emit/cpp/node.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/analyze/shared.h"
#include "opgen/emit/cpp/printer.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/emit/cpp/saved.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/schema/identifiers.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

using What = Symbol::What;
using How = Symbol::How;

const char* ordinal(int order) { return order == 1 ? "first" : order == 2 ? "second" : "third"; }

bool list_result(const Op& op) { return op.schema.results.size() == 1 && op.schema.results[0].type.list; }

/// Statements that put a formula's result somewhere, on one line or, if that is too long, as a block.
std::string guard(const std::string& condition, const std::vector<std::string>& hoisted, const std::string& statement) {
  const std::string line = "if (" + condition + ") " + statement;
  if (hoisted.empty() && line.size() <= 112 && statement.find('\n') == std::string::npos) return line + "\n";
  std::string block = "if (" + condition + ") {\n";
  for (const std::string& declaration : hoisted) block += indent(declaration + "\n", 2);
  return block + indent(statement + "\n", 2) + "}\n";
}

class NodePrinter {
 public:
  NodePrinter(const Op& op, const NodePlan& plan) : op_(op), plan_(plan), rules_(share_between_rules(op)) {}

  std::string print() {
    std::string text = fmt::format("struct {} final : autograd::Node {{\n", node_name(op_)), release;
    for (const Saved& saved : plan_.saved) {
      const std::string type = field_type(saved);
      text += "  " + type + " " + field_name(saved) + (type == "Scalar" ? " = 0" : "") + ";\n";
      if (saved.kind == Saved::Kind::tensor || saved.kind == Saved::Kind::output) release += field_name(saved) + ".reset(); ";
    }
    if (!plan_.saved.empty()) text += "\n";
    text += fmt::format("  std::string_view name() const override {{ return {}; }}\n", quote(op_.name()));
    bool reads_gradients = false, reads_first = false;
    std::string body;
    for (const SharedCall& call : rules_.shared) body += evaluate_shared(call);
    for (const Rule& rule : op_.reverse) {
      for (const auto& [symbol, use] : uses_of(rule.formula)) {
        const bool gradient = symbol.first == What::gradient || symbol.first == What::gradients;
        reads_gradients = reads_gradients || gradient;
        const bool only_asked = use.whole == 0 && use.parts == std::set{How::defined};
        reads_first = reads_first || (symbol.first == What::gradient && !only_asked);
      }
    }
    for (size_t i = 0; i < rules_.rules.size(); ++i) body += statement(i);
    if (op_.limit.order > 0)
      body = fmt::format("fail(ErrorKind::not_implemented, \"{} has derivatives up to the {} order\");\n", op_.limit.of,
                         ordinal(op_.limit.order));
    if (single_gradient() && reads_first) body = "const Tensor grad = grads[0];\n" + body;
    text += fmt::format("  void backward(const Gradients&{}, GradientSink&{}) override {{\n", reads_gradients ? " grads" : "",
                        body.empty() || op_.limit.order > 0 ? "" : " sink") +
            indent(body, 4) + "  }\n";
    if (!release.empty()) {
      release.pop_back();
      text += "  void release() override { " + release + " }\n";
    }
    return text + "};\n";
  }

 private:
  bool single_gradient() const { return op_.schema.results.size() == 1 && !list_result(op_); }

  std::string first_slot(const Slot& slot) const {
    std::string lists;
    for (const size_t list : slot.lists) lists += " + " + op_.schema.arguments[list].name + "_count";
    return slot.fixed == 0 && !lists.empty() ? lists.substr(3) : std::to_string(slot.fixed) + lists;
  }
  std::string wants(const Slot& slot) const {
    if (!slot.list) return fmt::format("sink.wants({})", first_slot(slot));
    return fmt::format("sink.wants_any({}, {}_count)", first_slot(slot), op_.schema.arguments[slot.argument].name);
  }
  /// The slot of element i.
  std::string element_slot(const Slot& slot) const {
    const std::string first = first_slot(slot);
    return first == "0" ? "i" : first + " + i";
  }
  std::string put(const Slot& slot, const std::string& value, bool each = false) const {
    if (each) return fmt::format("sink.put({}, {});", element_slot(slot), value);
    if (slot.list)
      return fmt::format("sink.put_list({}, {}_count, {});", first_slot(slot), op_.schema.arguments[slot.argument].name, value);
    return fmt::format("sink.put({}, {});", first_slot(slot), value);
  }

  /// How a formula in backward() reads its symbols; what is read several times is declared first.
  Place place_of(const Block& formula, bool each, std::vector<std::string>& hoisted) const {
    Place place;
    place.shadowing = identifiers(op_);
    for (const Slot& slot : plan_.slots) place.asked[slot.argument] = wants(slot);
    for (size_t i = 0; i < op_.schema.results.size(); ++i) {
      place.read(What::gradient, i, single_gradient() ? "grad" : fmt::format("grads[{}]", i));
      place.parts[{{What::gradient, i}, How::defined}] = fmt::format("grads.defined({})", i);
    }
    place.read(What::gradients, 0, "launch::all_gradients(grads)");
    for (size_t i = 0; i < rules_.shared.size(); ++i) {
      place.shadowing.insert(rules_.shared[i].name);
      place.read(What::shared, i, rules_.shared[i].name);
    }
    if (each) {
      place.shadowing.insert("i");
      place.read(What::element, 0, "static_cast<int64_t>(i)");
      place.parts[{{What::gradients, 0}, How::element}] = "grads[i]";
    }
    const Uses uses = uses_of(formula);
    for (const Saved& saved : plan_.saved) {
      if (saved.kind == Saved::Kind::count) continue;
      const SymbolKey key{saved.symbol.what, saved.symbol.index};
      const std::string& name = saved.symbol.name;
      if (saved.symbol.how == How::sizes && saved.rows && !saved.repeated_sizes) {
        place.operand_sizes[key] = field_name(saved);
        continue;
      }
      if (saved.symbol.how != How::whole) {
        place.parts[{key, saved.symbol.how}] = field_name(saved);
        continue;
      }
      if (saved.rows) place.repeated.insert(key);
      const auto use = uses.find(key);
      if (use != uses.end() && use->second.elements > 0)
        place.parts[{key, How::element}] = element(name, use->second, place, hoisted);
      if (use == uses.end() || use->second.whole == 0) continue;
      const bool optional_dims = saved.type.is_list_of(Base::integer) && saved.type.optional;
      if (saved.kind == Saved::Kind::value) {
        place.reads[key] = optional_dims ? "launch::optional_dims(" + name + ")" : name;
      } else if (use->second.whole == 1) {
        place.reads[key] = name + ".get(*this)";
      } else {
        place.reads[key] = name;
        hoisted.push_back(fmt::format("const {} {} = this->{}.get(*this);",
                                      saved.rows        ? "RepeatedRows"
                                      : saved.type.list ? "std::vector<Tensor>"
                                                        : "Tensor",
                                      name, name));
      }
    }
    return place;
  }

  /// How element i of a list is read.
  static std::string element(const std::string& list, const Use& use, Place& place, std::vector<std::string>& hoisted) {
    const std::string read = fmt::format("{}.get(i, *this)", list);
    if (use.elements == 1) return use.whole > 1 ? "this->" + read : read;  // the list by its name is what was read whole
    const std::string name = fresh(list + "_i", place.shadowing);
    place.shadowing.insert(name);
    hoisted.push_back(fmt::format("const Tensor {} = this->{};", name, read));
    return name;
  }

  /// A formula is linear in the gradients that it reads: where none of them arrived there is nothing to compute.
  std::string arrival(const Rule& rule) const {
    const Uses uses = uses_of(rule.formula);
    std::vector<std::string> defined;
    for (size_t i = 0; i < op_.schema.results.size(); ++i) {
      if (uses.count({What::gradient, i})) defined.push_back(fmt::format("grads.defined({})", i));
    }
    if (defined.empty() || defined.size() == op_.schema.results.size() || uses.count({What::gradients, 0})) return "";
    return defined.size() == 1 ? " && " + defined[0] : " && (" + join(defined, " || ") + ")";
  }

  static bool is_nothing(const Term& value) {
    return value.is(TermKind::conversion) && value.arguments[0]->type.base == Base::none && !value.arguments[0]->type.list;
  }

  /// The condition of a case, over what the node keeps.
  std::string holds(const Rule& rule) const {
    if (!rule.when) return "";
    std::vector<std::string> hoisted;
    const Place place = place_of({{}, rule.when}, false, hoisted);
    const std::string condition = Printer(place)(rule.when);
    return rule.when->operation == Operator::logical_or ? " && (" + condition + ")" : " && " + condition;
  }

  /// When a formula is evaluated.
  std::string evaluate(const Rule& rule) const {
    std::vector<std::string> conditions;
    for (const size_t input : rule.of) conditions.push_back(wants(*plan_.slot_of(input)));
    const std::string any = join(conditions, " || "), here = arrival(rule) + holds(rule);
    return here.empty() || conditions.size() == 1 ? any + here : "(" + any + ")" + here;
  }

  /// `Tensor shared; if (...) shared = ...;`
  std::string evaluate_shared(const SharedCall& call) const {
    std::vector<std::string> conditions, hoisted;
    for (const size_t rule : call.rules) {
      const std::string condition = evaluate(op_.reverse[rule]);
      const bool both = condition.find("&&") != std::string::npos;
      conditions.push_back(both ? "(" + condition + ")" : condition);
    }
    const Block formula{{}, call.value};
    const Place place = place_of(formula, false, hoisted);
    std::vector<std::string> types;
    for (const Type& element : call.value->type.elements) types.push_back(owned_type(element));
    const std::string type = types.empty() ? owned_type(call.value->type) : "std::tuple<" + join(types) + ">";
    return fmt::format("{} {};\n", type, call.name) +
           guard(join(conditions, " || "), hoisted, fmt::format("{} = {};", call.name, Printer(place)(call.value)));
  }

  std::string statement(size_t index) const {
    const Rule& rule = rules_.rules[index];
    std::vector<std::string> hoisted;
    Place place = place_of(rule.formula, rule.each, hoisted);
    for (std::string& declaration : Printer::declare(rule.formula.lets, place)) hoisted.push_back(std::move(declaration));
    const std::string formula = Printer(place)(rule.formula.value);
    if (is_nothing(*rule.formula.value)) return "";  // zero: nothing travels
    if (rule.each) {
      const Slot& slot = *plan_.slot_of(rule.of[0]);
      const bool here = reads_own_gradient(rule.formula);  // where others are read too, zeros stand for what did not arrive
      const std::string wanted =
          fmt::format("sink.wants({}){}", element_slot(slot), here ? " && grads.defined(i)" : arrival(op_.reverse[index]));
      return fmt::format("for (size_t i = 0; i < {}_count; ++i) {{\n", op_.schema.arguments[slot.argument].name) +
             indent(guard(wanted, hoisted, put(slot, formula, true)), 2) + "}\n";
    }
    if (rule.targets.size() == 1 && !rule.targets[0].is_record()) {
      const Slot& slot = *plan_.slot_of(rule.of[0]);
      return guard(evaluate(op_.reverse[index]), hoisted, put(slot, formula));
    }
    const Parts parts = take_apart(
        rule.targets, formula,
        [&](size_t input) { return fresh(op_.schema.arguments[input].name + "_gradient", place.shadowing); }, "auto");
    std::string puts;
    for (const auto& [input, name] : parts.names) {
      const Slot& slot = *plan_.slot_of(input);
      puts += fmt::format("\nif ({}) {}", wants(slot), put(slot, name));
    }
    return guard(evaluate(op_.reverse[index]), hoisted, parts.statements + puts);
  }

  const Op& op_;
  const NodePlan& plan_;
  const NodeRules rules_;
};

}  // namespace

std::string node_name(const Op& op) { return pascal_case(op.unique_name()) + "Backward"; }

std::string print_node(const Op& op, const NodePlan& plan) { return NodePrinter(op, plan).print(); }

std::string fresh(const std::string& name, const std::set<std::string>& taken) {
  std::string free = name;
  for (int i = 2; taken.count(free) > 0; ++i) free = name + std::to_string(i);
  return free;
}

std::set<std::string> identifiers(const Op& op) {
  std::set<std::string> names = node_members();
  for (const Argument& argument : op.schema.arguments) names.insert(argument.name);
  for (const auto* groups : {&op.schema.groups, &op.schema.result_groups}) {
    for (const Group& group : *groups) names.insert(group.name);
  }
  for (size_t i = 0; i < op.schema.results.size(); ++i) names.insert(op.result_name(i));
  return names;
}

}  // namespace opgen::cpp
