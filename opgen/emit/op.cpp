#include "opgen/emit/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/check/lower.h"
#include "opgen/derive/calculus.h"
#include "opgen/emit/cpp_types.h"
#include "opgen/emit/plan.h"
#include "opgen/text.h"

namespace opgen {
namespace {

std::string with_prefix(const std::string& head, const std::string& body, const std::string& op) {
  return head + " try {\n" + indent(body, 2) +
         fmt::format("}} catch (Error& error) {{\n  error.add_prefix({});\n  throw;\n}}\n\n", quoted(op));
}

std::string one_line_or_block(const std::string& head, const std::string& statement) {
  const std::string line = head + " { " + statement + " }\n";
  return line.size() <= 121 ? line : head + " {\n  " + statement + "\n}\n";
}

/// Statements that put a formula's result somewhere, on one line or, if that is too long, as a block.
std::string guarded(const std::string& condition, const std::vector<std::string>& hoisted, const std::string& statement) {
  const std::string line = "if (" + condition + ") " + statement;
  if (hoisted.empty() && line.size() <= 112 && statement.find('\n') == std::string::npos) return line + "\n";
  std::string block = "if (" + condition + ") {\n";
  for (const std::string& declaration : hoisted) block += indent(declaration + "\n", 2);
  return block + indent(statement + "\n", 2) + "}\n";
}

class OpEmitter {
 public:
  OpEmitter(const Entry& entry, const Library& library) : entry_(entry), library_(library) {}

  OpSource emit() {
    if (has_raw(entry_)) raw();
    if (entry_.body == Entry::Body::composite_cpp) return std::move(source_);
    if (entry_.body == Entry::Body::composite) {
      composite();
      return std::move(source_);
    }
    if (has_node(entry_)) {
      plan_ = plan_node(entry_, library_);
      source_.calls.insert(plan_.calls.begin(), plan_.calls.end());
      node();
    }
    if (entry_.writes_argument()) {
      inplace();
    } else {
      functional();
      if (entry_.inplace) inplace();
      if (entry_.out) out();
    }
    return std::move(source_);
  }

 private:
  // Below autograd.

  void raw() {
    if (entry_.body == Entry::Body::pointwise)
      raw_pointwise();
    else
      raw_kernel();
  }

  void raw_pointwise() {
    const std::string row = entry_.unique_name() + "_op";
    const char* dtypes = entry_.dtypes == Dtypes::floating ? "floating" : entry_.dtypes == Dtypes::numeric ? "numeric" : "all";
    source_.row = fmt::format("constexpr launch::Pointwise {}{{{{kernels::cpu::generated::{}}}, launch::Dtypes::{}{}}};\n", row,
                              entry_.unique_name(), dtypes, boolean_result() ? ", DType::bool_" : "");
    std::vector<std::string> tensors, numbers;
    for (const Argument& argument : entry_.schema.arguments)
      (argument.type.is_tensor() ? tensors : numbers).push_back(argument.name);
    const std::string operands = "{" + join(tensors) + "}" + (numbers.empty() ? "" : ", {" + join(numbers) + "}");
    source_.raw =
        one_line_or_block(raw_signature(entry_, false, false), fmt::format("return launch::pointwise({}, {});", row, operands));
    if (entry_.inplace || entry_.out)
      source_.raw += one_line_or_block(raw_signature(entry_, true, false),
                                       fmt::format("launch::pointwise_out({}, out, {});", row, operands));
  }

  bool boolean_result() const { return is_boolean(entry_.pointwise, library_); }

  void raw_kernel() {
    const std::string row = entry_.unique_name() + "_row";
    source_.row = wrapped("constexpr dispatch::KernelRow<void", kernel_parameters(entry_),
                          fmt::format("> {}{{kernels::cpu::{}}};\n", row, kernel_function()));
    Scope scope = argument_scope(entry_, library_);
    std::string body;
    const Argument* first = nullptr;
    for (const Argument& argument : entry_.schema.arguments) {
      if (!first && argument.type.is_tensor_like()) first = &argument;
    }
    // Dims are counted from 0 on from here on.
    for (const Argument& argument : entry_.schema.arguments) {
      const bool given = entry_.wraps.count(argument.name) > 0;
      const bool dim_name =
          argument.name.substr(0, 3) == "dim" && (argument.type.is(Base::integer) || argument.type.is_list_of(Base::integer));
      if (!given && (!entry_.wrap_dims || !dim_name || !first || first->type.list)) continue;
      const std::string rank = given
                                   ? lower_to(entry_.wraps.at(argument.name), type_of(Base::integer), scope, "the number of dims")
                                   : first->name + ".dim()";
      const std::string sizes = given ? "" : first->name + ".sizes()";
      const std::string wrapped_name = argument.name + "_wrapped";
      const std::string range = given ? rank : sizes;
      if (argument.type.list && argument.type.optional) {
        body += fmt::format("const Dims {} = launch::wrap_dims({}.value_or(Ints()), {});\n", wrapped_name, argument.name, range);
        body += fmt::format("if ({0}) {0} = {1};\n", argument.name, wrapped_name);
      } else if (argument.type.list) {
        body += fmt::format("const Dims {} = launch::wrap_dims({}, {});\n", wrapped_name, argument.name, range);
        scope.names[argument.name].cpp = wrapped_name;
      } else if (argument.type.optional) {
        body += fmt::format("if ({0}) {0} = launch::wrap_dim(*{0}, {1});\n", argument.name, range);
      } else {
        body += fmt::format("{0} = launch::wrap_dim({0}, {1});\n", argument.name, range);
      }
    }
    if (entry_.dtypes == Dtypes::floating) {
      for (const Argument* argument : real_inputs())
        body += fmt::format("launch::require_floating({0}, {1});\n", argument->name, quoted(argument->name));
    }
    for (const Check& check : entry_.checks) body += check_statement(check, scope);
    std::vector<std::string> tensors;
    for (const Argument& argument : entry_.schema.arguments) {
      if (argument.type.is_tensor()) tensors.push_back(argument.name);
    }
    std::string device = "const Device device = ";
    if (!tensors.empty())
      device += "dispatch::common_device({" + join(tensors) + "});\n";
    else if (first)
      device += "dispatch::common_device(" + first->name + ");\n";
    else
      device += "{};\n";
    body += device;
    std::vector<std::string> results;
    for (size_t i = 0; i < entry_.result_rules.size(); ++i) {
      results.push_back(entry_.result_name(i));
      body += fmt::format("const Tensor {} = {};\n", results.back(), allocation(entry_.result_rules[i], scope));
    }
    std::vector<std::string> arguments = {"CpuContext{}"};
    for (const Argument& argument : entry_.schema.arguments) arguments.push_back(kernel_argument(argument, scope));
    for (const std::string& result : results) arguments.push_back("dispatch::view(" + result + ")");
    body += wrapped(row + ".on(device)", arguments, ";") + "\n";
    body += results.size() == 1 ? "return " + results[0] + ";\n" : "return {" + join(results) + "};\n";
    source_.raw = raw_signature(entry_, false, false) + " {\n" + indent(body, 2) + "}\n";
    if (entry_.out || entry_.inplace)
      source_.raw += one_line_or_block(raw_signature(entry_, true, false),
                                       "native::copy_(out, " + entry_.name() + "(" + join(argument_names(entry_)) + "));");
    source_.calls.insert(scope.calls.begin(), scope.calls.end());
  }

  /// The inputs that a kernel of floating dtypes computes with: those that have derivatives; without any, the first tensor.
  std::vector<const Argument*> real_inputs() const {
    std::vector<const Argument*> inputs;
    const Argument* first = nullptr;
    for (const Argument* argument : entry_.tensors()) {
      const Rule* const rule = entry_.reverse_rule(argument->name);
      if (first == nullptr) first = argument;
      if (rule != nullptr && rule->kind != Rule::Kind::non_differentiable) inputs.push_back(argument);
    }
    if (inputs.empty() && first != nullptr) inputs.push_back(first);
    return inputs;
  }

  std::string kernel_function() const { return entry_.kernels.at("cpu").function; }

  std::string check_statement(const Check& check, Scope& scope) {
    const std::string condition = lower_to(check.condition, type_of(Base::boolean), scope, "a check");
    // "text with {expression}" -> fmt.
    const std::string& says = check.says.value();
    std::string format;
    std::vector<std::string> values;
    for (size_t at = 0; at < says.size(); ++at) {
      if (says[at] != '{') {
        format += says[at];
        if (says[at] == '}') format += '}';
        continue;
      }
      const size_t close = says.find('}', at);
      if (close == std::string::npos)
        throw Problem(check.says.at(at), "'{' in a message opens an expression, and '}' is missing");
      const Lowered value =
          lower(inline_lets(parse_formula(Text(says.substr(at + 1, close - at - 1), check.says.at(at + 1)))), scope);
      format += "{}";
      if (value.type.is(Base::dtype))
        values.push_back("name(" + value.cpp + ")");
      else if (value.type.is(Base::scalar))
        values.push_back("to_string(" + value.cpp + ")");
      else if (value.type.is_number() || value.type.is_list_of(Base::integer) || value.type.is(Base::boolean) ||
               value.type.is(Base::string))
        values.push_back(value.cpp);
      else
        throw Problem(check.says.at(at + 1),
                      fmt::format("a message shows numbers, sizes, dtypes and texts, not {}", value.type.to_string()));
      at = close;
    }
    std::vector<std::string> arguments = {condition, quoted(format)};
    arguments.insert(arguments.end(), values.begin(), values.end());
    return wrapped("check", arguments, ";") + "\n";
  }

  std::string allocation(const ExprPtr& rule, Scope& scope) {
    if (rule->is_call("like") && (rule->args.size() == 1 || rule->args.size() == 2)) {
      const Lowered like = lower(rule->args[0], scope);
      if (!like.type.is_tensor()) throw Problem(rule->args[0]->at, "like(x) wants a tensor");
      const std::string dtype =
          rule->args.size() == 2 ? lower_to(rule->args[1], type_of(Base::dtype), scope, "the dtype") : like.cpp + ".dtype()";
      return fmt::format("deckle::empty({}.sizes(), {}, device)", like.cpp, dtype);
    }
    if (rule->is_call("empty") && rule->args.size() == 2) {
      const std::string sizes = lower_to(rule->args[0], type_of(Base::integer, true), scope, "the shape");
      return fmt::format("deckle::empty({}, {}, device)", sizes,
                         lower_to(rule->args[1], type_of(Base::dtype), scope, "the dtype"));
    }
    throw Problem(rule->at,
                  fmt::format("an allocation rule is like(x), like(x, dtype) or empty(shape, dtype), not '{}'", to_string(rule)));
  }

  std::string kernel_argument(const Argument& argument, const Scope& scope) const {
    const std::string& cpp = scope.names.at(argument.name).cpp;
    const bool strided =
        entry_.strided_all || std::find(entry_.strided.begin(), entry_.strided.end(), argument.name) != entry_.strided.end();
    if (argument.type.is_tensor())
      return strided ? "dispatch::view(" + cpp + ")" : "dispatch::view(launch::contiguous(" + cpp + "))";
    if (argument.type.is_list_of(Base::tensor))
      return strided ? "dispatch::views(" + cpp + ")" : "dispatch::views(launch::contiguous(" + cpp + "))";
    if (argument.type.is(Base::scalar))
      return argument.type.optional ? fmt::format("launch::to_double({})", cpp) : cpp + ".to_double()";
    if (argument.type.is(Base::ragged)) return "dispatch::view(" + cpp + ")";
    if (argument.type.is(Base::generator)) return fmt::format("launch::reserve({}, {})", cpp, entry_.result_name(0));
    return cpp;
  }

  // The node.

  std::string node_name() const { return pascal_case(entry_.unique_name()) + "Backward"; }

  void node() {
    std::string text = fmt::format("struct {} final : autograd::Node {{\n", node_name());
    std::string release;
    for (const Field& field : plan_.fields) {
      text += "  " + field.type + " " + field.name + ";\n";
      if (field.kind != Field::Kind::value) release += field.name + ".reset(); ";
    }
    if (!plan_.fields.empty()) text += "\n";
    text += fmt::format("  std::string_view name() const override {{ return {}; }}\n", quoted(entry_.name()));
    std::string body;
    bool reads_gradients = plan_.reads_grad;
    if (plan_.reads_grad) body += "const Tensor grad = grads[0];\n";
    for (const ReverseStatement& statement : plan_.statements) {
      if (statement.slots.size() == 1) {
        const Slot& slot = *statement.slots[0];
        if (slot.count.empty()) {
          body += guarded(fmt::format("sink.wants({})", slot.first), statement.hoisted,
                          fmt::format("sink.put({}, {});", slot.first, statement.formula));
        } else {
          body += guarded(fmt::format("sink.wants_any({}, {})", slot.first, slot.count), statement.hoisted,
                          fmt::format("sink.put_list({}, {});", slot.first, statement.formula));
        }
      } else {
        std::vector<std::string> conditions, names;
        std::string puts;
        for (size_t i = 0; i < statement.slots.size(); ++i) {
          const Slot& slot = *statement.slots[i];
          const bool list = !slot.count.empty();
          const std::string wants =
              list ? fmt::format("sink.wants_any({}, {})", slot.first, slot.count) : fmt::format("sink.wants({})", slot.first);
          conditions.push_back(wants);
          names.push_back(slot.argument->name + "_gradient");
          puts += fmt::format("\nif ({}) sink.{}({}, {});", wants, list ? "put_list" : "put", slot.first, names.back());
        }
        body += guarded(join(conditions, " || "), statement.hoisted,
                        fmt::format("auto [{}] = {};{}", join(names), statement.formula, puts));
      }
      reads_gradients = reads_gradients || statement.formula.find("grads") != std::string::npos;
      for (const std::string& hoisted : statement.hoisted)
        reads_gradients = reads_gradients || hoisted.find("grads") != std::string::npos;
    }
    text +=
        fmt::format("  void backward(const Gradients&{}, GradientSink& sink) override {{\n", reads_gradients ? " grads" : "") +
        indent(body, 4) + "  }\n";
    if (!release.empty()) {
      release.pop_back();
      text += "  void release() override { " + release + " }\n";
    }
    source_.node = text + "};\n";
  }

  // Public functions.

  std::vector<std::string> differentiable_names() const {
    std::vector<std::string> names;
    for (const Slot& slot : plan_.slots) names.push_back(slot.argument->name);
    return names;
  }

  std::string below(const std::string& arguments) const {
    return std::string(has_raw(entry_) ? "raw::" : "native::") + entry_.name() + "(" + arguments + ")";
  }

  void functional() {
    const std::string head = signature(entry_, Variant::functional, false);
    const std::string call = below(join(argument_names(entry_)));
    const bool view = entry_.is_view();
    if (!has_node(entry_) && !view) {
      const std::string returned = entry_.schema.results.empty() ? call : "return " + call;
      source_.functions += with_prefix(head, returned + ";\n", entry_.name());
      return;
    }
    const std::string inputs = join(differentiable_names());
    std::string body;
    if (!view) body += fmt::format("if (!autograd::active({})) return {};\n", inputs, call);
    body += result_declaration(call);
    if (has_node(entry_)) {
      std::string record = fmt::format("auto node = std::make_shared<{}>();\nnode->connect({});\n", node_name(), inputs);
      for (const Field& field : plan_.fields) {
        if (field.kind != Field::Kind::output && field.kind != Field::Kind::outputs) record += save(field, field.save);
      }
      record += attach();
      for (const Field& field : plan_.fields) {
        if (field.kind == Field::Kind::output) record += fmt::format("node->{0}.save_output({0});\n", field.name);
        if (field.kind == Field::Kind::outputs) record += fmt::format("node->{0}.save_outputs({0});\n", field.name);
      }
      body += fmt::format("if (autograd::records({})) {{\n", inputs) + indent(record, 2) + "}\n";
    }
    if (view)
      body += mark_views();
    else
      body += tangents();
    body += return_statement();
    source_.functions += with_prefix(head, body, entry_.name());
  }

  std::string result_declaration(const std::string& call) const {
    if (entry_.schema.results.size() == 1) return fmt::format("{} {} = {};\n", return_type(entry_), entry_.result_name(0), call);
    std::vector<std::string> names;
    for (size_t i = 0; i < entry_.schema.results.size(); ++i) names.push_back(entry_.result_name(i));
    return "auto [" + join(names) + "] = " + call + ";\n";
  }

  std::string return_statement() const {
    if (entry_.schema.results.size() == 1) return "return " + entry_.result_name(0) + ";\n";
    std::vector<std::string> names;
    for (size_t i = 0; i < entry_.schema.results.size(); ++i) names.push_back(entry_.result_name(i));
    return "return {" + join(names) + "};\n";
  }

  std::string save(const Field& field, const std::string& value) const {
    if (field.kind == Field::Kind::value) {
      const bool copies_list = field.type.rfind("std::vector", 0) == 0;
      return fmt::format(
          "node->{} = {};\n", field.name,
          copies_list ? fmt::format("{}({}.begin(), {}.end())", field.type, value, value) : owning(field.type, value));
    }
    const std::string statement = fmt::format("node->{}.save({});", field.name, value);
    if (field.only_for.empty()) return statement + "\n";
    std::vector<std::string> conditions;
    for (const std::string& input : field.only_for) conditions.push_back(fmt::format("autograd::requires_grad({})", input));
    return "if (" + join(conditions, " || ") + ") " + statement + "\n";
  }

  static std::string owning(const std::string& type, const std::string& value) {
    if (type == "Dims" && value.find(" ? ") == std::string::npos) return "Dims(" + value + ")";
    if (type == "std::optional<Dims>") return fmt::format("{0} ? std::optional<Dims>(Dims(*{0})) : std::nullopt", value);
    return value;
  }

  std::string attach() const {
    if (entry_.schema.results.size() == 1 && !entry_.schema.results[0].type.list)
      return fmt::format("autograd::attach({}, node);\n", entry_.result_name(0));
    if (entry_.schema.results.size() == 1) return fmt::format("autograd::attach_all({}, node);\n", entry_.result_name(0));
    std::vector<std::string> names;
    for (size_t i = 0; i < entry_.schema.results.size(); ++i) names.push_back(entry_.result_name(i));
    return "autograd::attach_all({" + join(names) + "}, node);\n";
  }

  std::string mark_views() const {
    const Argument* viewed = nullptr;
    for (const Argument& argument : entry_.schema.arguments) {
      if (argument.alias && !argument.alias->written) viewed = &argument;
    }
    const std::string result = entry_.result_name(0);
    if (!entry_.schema.results[0].type.list) return fmt::format("autograd::mark_view({}, {});\n", result, viewed->name);
    return fmt::format("for (const Tensor& view : {}) autograd::mark_view(view, {}, true);\n", result, viewed->name);
  }

  // Forward mode.

  bool has_forward() const { return !entry_.forward.empty() || !entry_.tangent_terms.empty(); }

  /// Names x_p and x_t that `formulas` read, declared; `self_source` stands for self.
  std::string primal_declarations(const std::map<std::string, Use>& uses, bool with_tangents, const std::string& self_source,
                                  bool inplace) const {
    std::string text;
    const auto reads = [&](const std::string& name) { return uses.count(name) > 0; };
    for (const Argument* argument : entry_.tensors()) {
      const std::string source = argument->name == "self" ? self_source : argument->name;
      const char* type = argument->type.list ? "std::vector<Tensor>" : "Tensor";
      if (reads(argument->name + "_p"))
        text += fmt::format("const {} {}_p = autograd::primal({}, level);\n", type, argument->name, source);
      if (with_tangents && reads(argument->name + "_t"))
        text += fmt::format("const {} {}_t = autograd::tangent({}, level);\n", type, argument->name, source);
    }
    for (size_t i = 0; i < entry_.schema.results.size(); ++i) {
      const std::string name = entry_.result_name(i);
      if (!reads(name)) continue;
      const char* type = entry_.schema.results[i].type.list ? "std::vector<Tensor>" : "Tensor";
      text += fmt::format("const {} {}_p = autograd::primal({}, level);\n", type, name, inplace ? "self" : name);
    }
    return text;
  }

  /// `self_source`: what holds self as it was before an in-place write.
  std::string tangents(const std::string& self_source = "self", bool inplace = false) {
    const std::string inputs = join(differentiable_names());
    if (!has_forward()) {
      if (inputs.empty()) return "";
      return fmt::format(
          "if (!autograd::tangent_levels({}).empty()) fail(ErrorKind::not_implemented, \"{} has no forward mode\");\n", inputs,
          entry_.name());
    }
    std::string body;
    Scope scope = forward_scope(entry_, library_);
    if (inplace) scope.wants["self"] = fmt::format("autograd::has_tangent({}, level)", self_source);
    const auto set = [&](const std::string& result, const std::string& value) {
      return fmt::format("autograd::{}({}, level, {});\n", inplace ? "update_tangent" : "set_tangent", inplace ? "self" : result,
                         value);
    };
    if (!entry_.tangent_terms.empty()) {
      const std::string result = entry_.result_name(0);
      const bool one = entry_.tangent_terms.size() == 1 && count_tensors() == 1;
      std::string sum;
      for (const TangentTerm& term : entry_.tangent_terms) {
        const std::string source = term.input == "self" ? self_source : term.input;
        scope.names.at(term.input + "_t").cpp = fmt::format("autograd::tangent({}, level)", source);
        const std::string value = lower_to(term.formula, tensor_type(true), scope, "the tangent");
        const bool first = sum.empty();
        if (one)
          sum = set(result, value);
        else
          sum += fmt::format("if ({}) result_tangent = {};\n", scope.wants.at(term.input),
                             first ? value : "launch::plus(result_tangent, " + value + ")");
      }
      body = primal_declarations(scope.uses, false, self_source, inplace);
      body += one ? sum
                  : "Tensor result_tangent;\n" + sum +
                        set(result, fmt::format("launch::broadcast_tangent(result_tangent, {})", inplace ? "self" : result));
    } else {
      std::string statements;
      for (const Rule& rule : entry_.forward) {
        for (const auto& [let, value] : rule.formula.lets) {
          const Lowered lowered = lower(value, scope);
          statements += fmt::format("const auto {} = {};\n", let, lowered.cpp);
          scope.names[let] = {lowered.type, let, {}, ""};
        }
        const Lowered lowered = lower(rule.formula.body, scope);
        statements += forward_statement(rule, lowered, set);
      }
      body = primal_declarations(scope.uses, true, self_source, inplace) + statements;
    }
    source_.calls.insert(scope.calls.begin(), scope.calls.end());
    std::vector<std::string> names = differentiable_names();
    if (inplace && self_source != "self") {
      for (std::string& name : names) {
        if (name == "self") name = self_source;
      }
    }
    return fmt::format("for (const autograd::Level level : autograd::tangent_levels({})) {{\n", join(names)) + indent(body, 2) +
           "}\n";
  }

  int count_tensors() const { return static_cast<int>(entry_.tensors().size()); }

  template <typename Set>
  std::string forward_statement(const Rule& rule, const Lowered& lowered, const Set& set) const {
    if (rule.keys.size() == 1) {
      size_t index = 0;
      while (entry_.result_name(index) != rule.keys[0]) ++index;
      const Type& result = entry_.schema.results[index].type;
      if (result.list) {
        if (!lowered.type.is_list_of(Base::tensor))
          throw Problem(rule.formula.body->at, fmt::format("the tangent of '{}' must be Tensor[], but the formula is {}",
                                                           rule.keys[0], lowered.type.to_string()));
        return fmt::format(
            "const std::vector<Tensor> tangents = {0};\nfor (size_t i = 0; i < {1}.size(); ++i) autograd::set_tangent({1}[i], "
            "level, tangents[i]);\n",
            lowered.cpp, rule.keys[0]);
      }
      const bool none = lowered.type.base == Base::none;
      if (!lowered.type.is_tensor() && !none)
        throw Problem(rule.formula.body->at, fmt::format("the tangent of '{}' must be Tensor, but the formula is {}",
                                                         rule.keys[0], lowered.type.to_string()));
      return set(rule.keys[0], none ? "Tensor()" : lowered.cpp);
    }
    if (lowered.type.base != Base::tuple || lowered.type.elements.size() != rule.keys.size())
      throw Problem(rule.formula.body->at, fmt::format("the formula of '{}' must give {} tangents, but it is {}", join(rule.keys),
                                                       rule.keys.size(), lowered.type.to_string()));
    std::vector<std::string> names;
    std::string text;
    for (const std::string& key : rule.keys) names.push_back(key + "_tangent");
    text += "const auto [" + join(names) + "] = " + lowered.cpp + ";\n";
    for (size_t i = 0; i < rule.keys.size(); ++i) text += set(rule.keys[i], names[i]);
    return text;
  }

  // Writing into an argument.

  /// Inputs whose tangent reads self_p.
  std::set<std::string> tangents_reading_self() const {
    std::set<std::string> inputs;
    for (const TangentTerm& term : entry_.tangent_terms) {
      if (mentions(term.formula, "self_p")) inputs.insert(term.input);
    }
    for (const Rule& rule : entry_.forward) {
      if (mentions(inline_lets(rule.formula), "self_p")) {
        for (const Slot& slot : plan_.slots) inputs.insert(slot.argument->name);
      }
    }
    return inputs;
  }

  void inplace() {
    const bool written = entry_.writes_argument();
    const std::string head = signature(entry_, Variant::inplace, false);
    std::string call;
    if (written) {
      call = below(join(argument_names(entry_)));
    } else {
      call = "raw::" + entry_.name() + "_out(self, " + join(argument_names(entry_)) + ")";
    }
    std::string body;
    if (!has_node(entry_)) {
      body = "autograd::check_inplace(self, false);\n" + call + ";\nautograd::bump_version(self);\nreturn self;\n";
      source_.functions += with_prefix(head, body, entry_.name() + (written ? "" : "_"));
      return;
    }
    const std::vector<std::string> names = differentiable_names();
    const std::string inputs = join(names);
    body += fmt::format("autograd::check_inplace(self, autograd::records({}));\n", inputs);
    body +=
        fmt::format("if (!autograd::active({})) {{\n  {};\n  autograd::bump_version(self);\n  return self;\n}}\n", inputs, call);
    std::string self_source = "self";
    std::set<std::string> original_for = plan_.original_self_for;
    for (const std::string& input : tangents_reading_self()) original_for.insert(input);
    if (!original_for.empty()) {
      self_source = "original";
      std::vector<std::string> readers;
      for (const std::string& name : names) {
        if (original_for.count(name)) readers.push_back(name);
      }
      const std::string copy = "clone(self)";
      body += readers.size() == names.size()
                  ? fmt::format("const Tensor original = {};\n", copy)
                  : fmt::format("const Tensor original = autograd::active({}) ? {} : self;\n", join(readers), copy);
      for (const Entry* clone : library_.named("clone")) source_.calls.insert(clone);
    }
    body += fmt::format("std::shared_ptr<{}> node;\nif (autograd::records({})) {{\n", node_name(), inputs);
    std::string record = fmt::format("node = std::make_shared<{}>();\nnode->connect({});\n", node_name(), inputs);
    for (const Field& field : plan_.fields) {
      if (field.kind == Field::Kind::output || field.kind == Field::Kind::outputs) continue;
      const bool result_property = field.kind == Field::Kind::value && field.name.rfind(entry_.result_name(0) + "_", 0) == 0;
      std::string value = field.save;
      if (field.kind == Field::Kind::tensor && field.name == "self") value = self_source;
      if (result_property) value = "self" + value.substr(entry_.result_name(0).size());
      record += save(field, value);
    }
    body += indent(record, 2) + "}\n";
    body += call + ";\nautograd::bump_version(self);\n";
    std::string after = "autograd::rebase(self, node);\n";
    for (const Field& field : plan_.fields) {
      if (field.kind == Field::Kind::output) after += fmt::format("node->{}.save_output(self);\n", field.name);
    }
    body += after.find('\n') == after.size() - 1 ? "if (node) " + after : "if (node) {\n" + indent(after, 2) + "}\n";
    body += tangents(self_source, true);
    body += "return self;\n";
    source_.functions += with_prefix(head, body, entry_.name() + (written ? "" : "_"));
  }

  void out() {
    std::string body;
    std::vector<std::string> tensors = {"out"};
    for (const Argument* argument : entry_.tensors()) {
      if (argument->type.is_tensor()) tensors.push_back(argument->name);
    }
    body += "autograd::check_out({" + join(tensors) + "});\n";
    body += "raw::" + entry_.name() + "_out(out, " + join(argument_names(entry_)) + ");\n";
    body += "autograd::bump_version(out);\nreturn out;\n";
    source_.functions += with_prefix(signature(entry_, Variant::out, false), body, entry_.name() + "_out");
  }

  void composite() {
    Scope scope = argument_scope(entry_, library_);
    std::string body;
    for (const auto& [let, value] : entry_.composite.lets) {
      const Lowered lowered = lower(value, scope);
      body += fmt::format("const auto {} = {};\n", let, lowered.cpp);
      scope.names[let] = {lowered.type, let, {}, ""};
      scope.shadowing.insert(let);
    }
    const Type wanted = result_type_of(entry_.schema);
    const std::string value = lower_to(entry_.composite.body, wanted, scope, "the result");
    body += "return " + value + ";\n";
    source_.calls = scope.calls;
    source_.functions = with_prefix(signature(entry_, Variant::functional, false), body, entry_.name());
  }

  const Entry& entry_;
  const Library& library_;
  NodePlan plan_;
  OpSource source_;
};

}  // namespace

OpSource emit_op(const Entry& entry, const Library& library) { return OpEmitter(entry, library).emit(); }

bool has_raw(const Entry& entry) { return entry.body == Entry::Body::pointwise || entry.body == Entry::Body::kernel; }

std::string variant_name(const Entry& entry, Variant variant) {
  switch (variant) {
    case Variant::functional:
      return entry.name();
    case Variant::inplace:
      return entry.name().back() == '_' ? entry.name() : entry.name() + "_";
    case Variant::out:
      return entry.name() + "_out";
  }
  return entry.name();
}

std::string signature(const Entry& entry, Variant variant, bool with_defaults) {
  std::vector<std::string> parts = parameters(entry, with_defaults);
  std::string result = return_type(entry);
  if (variant != Variant::functional && !entry.schema.results.empty()) result = "const Tensor&";
  if (variant == Variant::out) parts.insert(parts.begin(), "const Tensor& out");
  return wrapped(result + " " + variant_name(entry, variant), parts, "");
}

std::string raw_signature(const Entry& entry, bool out, bool with_defaults) {
  std::vector<std::string> parts = parameters(entry, with_defaults);
  if (!out) return wrapped(return_type(entry) + " " + entry.name(), parts, "");
  parts.insert(parts.begin(), "const Tensor& out");
  return wrapped("void " + entry.name() + "_out", parts, "");
}

std::string native_signature(const Entry& entry, bool with_defaults) {
  const std::string result = entry.writes_argument() ? "void" : return_type(entry);
  return wrapped(result + " " + entry.name(), parameters(entry, with_defaults), "");
}

std::vector<std::string> kernel_parameters(const Entry& entry) {
  if (entry.body == Entry::Body::pointwise)
    return {"const CpuContext&", "DType compute", "std::span<const View> inputs", "std::span<const Number> numbers",
            "const View& result"};
  std::vector<std::string> parts = {"const CpuContext&"};
  for (const Argument& argument : entry.schema.arguments)
    parts.push_back(kernel_parameter_type(argument.type) + " " + argument.name);
  for (size_t i = 0; i < entry.schema.results.size(); ++i) parts.push_back("const View& " + entry.result_name(i));
  return parts;
}

}  // namespace opgen
