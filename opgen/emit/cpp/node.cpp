#include "opgen/emit/cpp/node.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/cpp/printer.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/schema/identifiers.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

using What = Symbol::What;
using How = Symbol::How;

std::string field_type(const Saved& saved) {
  switch (saved.kind) {
    case Saved::Kind::tensor:
    case Saved::Kind::output:
      return saved.rows ? "SavedRows" : saved.type.list ? "SavedTensors" : "SavedTensor";
    case Saved::Kind::count:
      return "size_t";
    case Saved::Kind::value:
      break;
  }
  switch (saved.symbol.how) {
    case How::whole:
      return owned_type(saved.type);
    case How::sizes:
      return saved.rows ? "OperandSizes" : "Dims";
    case How::dtype:
      return "DType";
    case How::device:
      return "Device";
    case How::defined:
      return "bool";
  }
  return "";
}

const char* ordinal(int order) { return order == 1 ? "first" : order == 2 ? "second" : "third"; }

bool list_result(const Op& op) { return op.schema.results.size() == 1 && op.schema.results[0].type.list; }

/// Statements that put a formula's result somewhere, on one line or, if that is too long, as a block.
std::string guarded(const std::string& condition, const std::vector<std::string>& hoisted, const std::string& statement) {
  const std::string line = "if (" + condition + ") " + statement;
  if (hoisted.empty() && line.size() <= 112 && statement.find('\n') == std::string::npos) return line + "\n";
  std::string block = "if (" + condition + ") {\n";
  for (const std::string& declaration : hoisted) block += indent(declaration + "\n", 2);
  return block + indent(statement + "\n", 2) + "}\n";
}

class NodePrinter {
 public:
  NodePrinter(const Op& op, const NodePlan& plan) : op_(op), plan_(plan) {}

  std::string print() {
    std::string text = fmt::format("struct {} final : autograd::Node {{\n", node_name(op_)), release;
    for (const Saved& saved : plan_.saved) {
      text += "  " + field_type(saved) + " " + field_name(saved) + ";\n";
      if (saved.kind == Saved::Kind::tensor || saved.kind == Saved::Kind::output) release += field_name(saved) + ".reset(); ";
    }
    if (!plan_.saved.empty()) text += "\n";
    text += fmt::format("  std::string_view name() const override {{ return {}; }}\n", quoted(op_.name()));
    bool reads_gradients = false, reads_first = false;
    std::string body;
    for (const Rule& rule : op_.reverse) {
      for (const auto& [symbol, use] : uses_of(rule.formula)) {
        const bool gradient = symbol.first == What::gradient || symbol.first == What::gradients;
        reads_gradients = reads_gradients || gradient;
        const bool only_asked = use.whole == 0 && use.parts == std::set{How::defined};
        reads_first = reads_first || (symbol.first == What::gradient && !only_asked);
      }
      body += statement(rule);
    }
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
  std::string put(const Slot& slot, const std::string& value) const {
    if (slot.list)
      return fmt::format("sink.put_list({}, {}_count, {});", first_slot(slot), op_.schema.arguments[slot.argument].name, value);
    return fmt::format("sink.put({}, {});", first_slot(slot), value);
  }

  /// How a formula in backward() reads its symbols; what is read several times is declared first.
  Place place_of(const Rule& rule, std::vector<std::string>& hoisted) const {
    Place place;
    place.shadowing = identifiers(op_);
    for (const Slot& slot : plan_.slots) place.asked[slot.argument] = wants(slot);
    for (size_t i = 0; i < op_.schema.results.size(); ++i) {
      place.read(What::gradient, i, single_gradient() ? "grad" : fmt::format("grads[{}]", i));
      place.parts[{{What::gradient, i}, How::defined}] = fmt::format("grads.defined({})", i);
    }
    place.read(What::gradients, 0, "launch::all_gradients(grads)");
    const Uses uses = uses_of(rule.formula);
    for (const Saved& saved : plan_.saved) {
      if (saved.kind == Saved::Kind::count) continue;
      const SymbolKey key{saved.symbol.what, saved.symbol.index};
      const std::string& name = saved.symbol.name;
      if (saved.symbol.how != How::whole) {
        place.parts[{key, saved.symbol.how}] = field_name(saved);
        continue;
      }
      if (saved.rows) place.repeated.insert(key);
      const auto use = uses.find(key);
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

  /// A formula is linear in the gradients that it reads: where none of them arrived there is nothing to compute.
  std::string arrived(const Rule& rule) const {
    const Uses uses = uses_of(rule.formula);
    std::vector<std::string> defined;
    for (size_t i = 0; i < op_.schema.results.size(); ++i) {
      if (uses.count({What::gradient, i})) defined.push_back(fmt::format("grads.defined({})", i));
    }
    if (defined.empty() || defined.size() == op_.schema.results.size() || uses.count({What::gradients, 0})) return "";
    return defined.size() == 1 ? " && " + defined[0] : " && (" + join(defined, " || ") + ")";
  }

  static bool is_nothing(const Term& value) {
    return value.is(Term::Kind::conversion) && value.arguments[0]->type.base == Base::none && !value.arguments[0]->type.list;
  }

  std::string statement(const Rule& rule) const {
    std::vector<std::string> hoisted;
    Place place = place_of(rule, hoisted);
    for (std::string& declaration : Printer::declare(rule.formula.lets, place)) hoisted.push_back(std::move(declaration));
    const std::string formula = Printer(place)(rule.formula.value);
    if (is_nothing(*rule.formula.value)) return "";  // zero: nothing travels
    if (rule.targets.size() == 1 && !rule.targets[0].is_record()) {
      const Slot& slot = *plan_.slot_of(rule.of[0]);
      return guarded(wants(slot) + arrived(rule), hoisted, put(slot, formula));
    }
    const Parts parts = take_apart(
        rule.targets, formula,
        [&](size_t input) { return fresh(op_.schema.arguments[input].name + "_gradient", place.shadowing); }, "auto");
    std::vector<std::string> conditions;
    std::string puts;
    for (const auto& [input, name] : parts.names) {
      const Slot& slot = *plan_.slot_of(input);
      conditions.push_back(wants(slot));
      puts += fmt::format("\nif ({}) {}", conditions.back(), put(slot, name));
    }
    const std::string here = arrived(rule), any = join(conditions, " || ");
    return guarded(here.empty() ? any : "(" + any + ")" + here, hoisted, parts.statements + puts);
  }

  const Op& op_;
  const NodePlan& plan_;
};

}  // namespace

std::string node_name(const Op& op) { return pascal_case(op.unique_name()) + "Backward"; }

std::string field_name(const Saved& saved) {
  if (saved.kind == Saved::Kind::count) return saved.symbol.name + "_count";
  if (saved.symbol.how == How::whole) return saved.symbol.name;
  return saved.symbol.name + "_" + part_name(saved.symbol.how);
}

std::string saved_value(const Saved& saved, const std::string& source) {
  if (saved.kind == Saved::Kind::count) return source + ".size()";
  if (saved.kind != Saved::Kind::value) return source;
  const std::string type = field_type(saved);
  if (saved.symbol.how == How::whole) {
    if (type.starts_with("std::vector")) return fmt::format("{}({}.begin(), {}.end())", type, source, source);
    if (type == "Dims") return "Dims(" + source + ")";
    if (type == "std::optional<Dims>") return fmt::format("{0} ? std::optional<Dims>(Dims(*{0})) : std::nullopt", source);
    return source;
  }
  if (saved.rows && saved.symbol.how == How::sizes) return "OperandSizes(" + source + ")";
  const std::string part = fmt::format("{}.{}()", source, part_name(saved.symbol.how));
  const bool may_be_missing = saved.symbol.what == What::argument && saved.type.optional;
  switch (saved.symbol.how) {
    case How::sizes:  // an undefined tensor has no sizes
      return may_be_missing ? fmt::format("{}.defined() ? Dims({}) : Dims()", source, part) : "Dims(" + part + ")";
    case How::dtype:
      return may_be_missing ? fmt::format("{}.defined() ? {} : DType::float32", source, part) : part;
    case How::device:
      return may_be_missing ? fmt::format("{}.defined() ? {} : Device()", source, part) : part;
    default:
      return part;
  }
}

std::string save_statement(const Op& op, const Saved& saved, const std::string& value) {
  if (saved.kind == Saved::Kind::value || saved.kind == Saved::Kind::count)
    return fmt::format("node->{} = {};\n", field_name(saved), value);
  const std::string statement = fmt::format("node->{}.save({});", field_name(saved), value);
  if (saved.only_for.empty()) return statement + "\n";
  std::vector<std::string> conditions;
  for (const size_t input : saved.only_for)
    conditions.push_back(fmt::format("autograd::requires_grad({})", op.schema.arguments[input].name));
  return "if (" + join(conditions, " || ") + ") " + statement + "\n";
}

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
