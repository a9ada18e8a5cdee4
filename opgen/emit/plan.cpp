#include "opgen/emit/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/cpp_types.h"
#include "opgen/text.h"

namespace opgen {
namespace {

const std::set<std::string> kNodeMembers = {"name",    "backward", "release",  "connect",   "add_edge", "add_output", "edges",
                                            "outputs", "sequence", "add_hook", "run_hooks", "grads",    "sink",       "grad"};

std::set<std::string> identifiers(const Entry& entry) {
  std::set<std::string> names = kNodeMembers;
  for (const Argument& argument : entry.schema.arguments) names.insert(argument.name);
  for (size_t i = 0; i < entry.schema.results.size(); ++i) names.insert(entry.result_name(i));
  return names;
}

std::vector<std::string> gradient_names(const Entry& entry) {
  std::vector<std::string> names;
  for (size_t i = 0; i < entry.schema.results.size(); ++i) {
    const std::string& name = entry.schema.results[i].name;
    names.push_back(name.empty() ? "" : "grad_" + name);
  }
  return names;
}

bool list_result(const Entry& entry) { return entry.schema.results.size() == 1 && entry.schema.results[0].type.list; }

}  // namespace

std::vector<const Argument*> differentiable_inputs(const Entry& entry) {
  std::vector<const Argument*> inputs;
  for (const Argument* argument : entry.tensors()) {
    const Rule* rule = entry.reverse_rule(argument->name);
    if (rule && rule->kind != Rule::Kind::non_differentiable) inputs.push_back(argument);
  }
  return inputs;
}

bool has_node(const Entry& entry) { return !entry.non_differentiable && !differentiable_inputs(entry).empty(); }

Scope reverse_scope(const Entry& entry, const Library& library) {
  Scope scope{library, {}, identifiers(entry), {"wants"}, {}, {}, {}};
  for (const Argument& argument : entry.schema.arguments) scope.names[argument.name] = {argument.type, argument.name, {}, ""};
  for (size_t i = 0; i < entry.schema.results.size(); ++i)
    scope.names[entry.result_name(i)] = {entry.schema.results[i].type, entry.result_name(i), {}, ""};
  if (list_result(entry)) {
    Type list = tensor_type();
    list.list = true;
    scope.names["grads"] = {list, "launch::all_gradients(grads)", {}, ""};
    scope.names["grad"] = {tensor_type(), "", {}, "the result is a list: its gradients are 'grads'"};
    return scope;
  }
  scope.names["grad"] = {tensor_type(), "grads[0]", {{"defined", "grads.defined(0)"}}, ""};
  if (entry.schema.results.size() > 1) {
    Type list = tensor_type();
    list.list = true;
    scope.names["grads"] = {list, "grads", {}, ""};
  }
  const std::vector<std::string> named = gradient_names(entry);
  for (size_t i = 0; i < named.size(); ++i) {
    const std::string text = fmt::format("grads[{}]", i), defined = fmt::format("grads.defined({})", i);
    if (!named[i].empty()) scope.names[named[i]] = {tensor_type(), text, {{"defined", defined}}, ""};
    if (named.size() > 1) scope.names[fmt::format("grad{}", i)] = {tensor_type(), text, {{"defined", defined}}, ""};
  }
  return scope;
}

Scope forward_scope(const Entry& entry, const Library& library) {
  Scope scope{library, {}, identifiers(entry), {"has_t"}, {}, {}, {}};
  scope.shadowing.insert("level");
  for (const Argument& argument : entry.schema.arguments) {
    if (!argument.type.is_tensor_like()) {
      scope.names[argument.name] = {argument.type, argument.name, {}, ""};
      continue;
    }
    const std::string why =
        fmt::format("a forward formula reads '{0}_p' (the primal) or '{0}_t' (the tangent), not '{0}'", argument.name);
    const Rule* rule = entry.reverse_rule(argument.name);
    const bool constant = rule && rule->kind == Rule::Kind::non_differentiable;  // has no tangent: its bare name is clear
    Binding whole{argument.type, argument.name, {}, constant ? "" : why};
    scope.names[argument.name] = whole;
    scope.names[argument.name + "_p"] = {argument.type, argument.name + "_p", {}, ""};
    scope.names[argument.name + "_t"] = {argument.type, argument.name + "_t", {}, ""};
    scope.wants[argument.name] = fmt::format("autograd::has_tangent({}, level)", argument.name);
  }
  for (size_t i = 0; i < entry.schema.results.size(); ++i)
    scope.names[entry.result_name(i)] = {entry.schema.results[i].type, entry.result_name(i) + "_p", {}, ""};
  return scope;
}

Scope argument_scope(const Entry& entry, const Library& library) {
  Scope scope{library, {}, {}, {}, {}, {}, {}};
  for (const Argument& argument : entry.schema.arguments) {
    scope.names[argument.name] = {argument.type, argument.name, {}, ""};
    scope.shadowing.insert(argument.name);
  }
  return scope;
}

NodePlan plan_node(const Entry& entry, const Library& library) {
  NodePlan plan;
  // Slots: constants plus the lengths of the lists before.
  int fixed = 0;
  std::string lists;
  for (const Argument* argument : differentiable_inputs(entry)) {
    Slot slot{argument, fmt::format("{}{}", fixed, lists), ""};
    if (fixed == 0 && !lists.empty()) slot.first = lists.substr(3);
    if (argument->type.list) {
      slot.count = argument->name + "_count";
      lists += " + " + slot.count;
    } else {
      ++fixed;
    }
    plan.slots.push_back(slot);
  }
  const auto slot_of = [&](const std::string& name) -> const Slot* {
    for (const Slot& slot : plan.slots) {
      if (slot.argument->name == name) return &slot;
    }
    return nullptr;
  };

  // First pass: what does each formula read?
  struct Reads {
    std::map<std::string, Use> uses;
    std::vector<std::string> inputs;
  };
  std::vector<Reads> reads;
  std::set<std::string> property_fields;  // "self.sizes"
  std::map<std::string, std::set<std::string>> whole_for;
  for (const Rule& rule : entry.reverse) {
    if (rule.kind != Rule::Kind::formula) continue;
    Scope scope = reverse_scope(entry, library);
    for (const Slot& slot : plan.slots) scope.wants[slot.argument->name] = "true";
    for (const auto& [let, value] : rule.formula.lets) {
      const Lowered lowered = lower(value, scope);
      scope.names[let] = {lowered.type, let, {}, ""};
    }
    (void)lower(rule.formula.body, scope);
    for (const auto& [name, use] : scope.uses) {
      for (const std::string& property : use.properties) property_fields.insert(name + "." + property);
      if (use.whole > 0) whole_for[name].insert(rule.keys.begin(), rule.keys.end());
    }
    reads.push_back({scope.uses, rule.keys});
  }

  // Fields, in the order of arguments and results.
  std::map<std::string, std::map<std::string, std::string>> properties;
  const auto property_field = [&](const std::string& tensor, const std::string& property, const std::string& type,
                                  const std::string& code) {
    if (!property_fields.count(tensor + "." + property)) return;
    const std::string name = tensor + "_" + property;
    plan.fields.push_back({Field::Kind::value, name, type, code, {}});
    properties[tensor][property] = name;
  };
  const auto properties_of = [&](const std::string& tensor) {
    property_field(tensor, "sizes", "Dims", tensor + ".sizes()");
    property_field(tensor, "dtype", "DType", tensor + ".dtype()");
    property_field(tensor, "device", "Device", tensor + ".device()");
    property_field(tensor, "defined", "bool", tensor + ".defined()");
  };
  size_t differentiable = plan.slots.size();
  for (const Argument& argument : entry.schema.arguments) {
    const auto whole = whole_for.find(argument.name);
    if (argument.type.is_tensor_like()) {
      if (!argument.type.list) {
        properties_of(argument.name);
        // An undefined optional tensor has no sizes.
        if (argument.type.optional) {
          for (Field& field : plan.fields) {
            if (field.name == argument.name + "_sizes")
              field.save = fmt::format("{0}.defined() ? Dims({0}.sizes()) : Dims()", argument.name);
            if (field.name == argument.name + "_dtype")
              field.save = fmt::format("{0}.defined() ? {0}.dtype() : DType::float32", argument.name);
            if (field.name == argument.name + "_device")
              field.save = fmt::format("{0}.defined() ? {0}.device() : Device()", argument.name);
          }
        }
      }
      if (whole != whole_for.end()) {
        Field field{argument.type.list ? Field::Kind::tensors : Field::Kind::tensor, argument.name,
                    argument.type.list ? "SavedTensors" : "SavedTensor", argument.name, whole->second};
        size_t named = 0;
        for (const std::string& input : field.only_for) named += slot_of(input) != nullptr;
        if (named == differentiable) field.only_for.clear();
        plan.fields.push_back(std::move(field));
      }
    } else if (whole != whole_for.end()) {
      plan.fields.push_back({Field::Kind::value, argument.name, owned_type(argument.type), argument.name, {}});
    }
    if (const Slot* slot = slot_of(argument.name); slot && argument.type.list)
      plan.fields.push_back({Field::Kind::value, slot->count, "size_t", argument.name + ".size()", {}});
  }
  for (size_t i = 0; i < entry.schema.results.size(); ++i) {
    const std::string name = entry.result_name(i);
    properties_of(name);
    const auto whole = whole_for.find(name);
    if (whole == whole_for.end()) continue;
    const bool list = entry.schema.results[i].type.list;
    plan.fields.push_back(
        {list ? Field::Kind::outputs : Field::Kind::output, name, list ? "SavedTensors" : "SavedTensor", name, {}});
  }
  if (whole_for.count("self")) plan.original_self_for = whole_for.at("self");

  // Second pass: the formulas over those fields.
  int grad_reads = 0;
  for (const Rule& rule : entry.reverse) {
    if (rule.kind != Rule::Kind::formula) continue;
    ReverseStatement statement{&rule, {}, {}, "", {}};
    for (const std::string& key : rule.keys) statement.slots.push_back(slot_of(key));
    const Reads* read = nullptr;
    for (const Reads& candidate : reads) {
      if (candidate.inputs == rule.keys) read = &candidate;
    }
    Scope scope = reverse_scope(entry, library);
    for (const Slot& slot : plan.slots)
      scope.wants[slot.argument->name] = slot.count.empty() ? fmt::format("sink.wants({})", slot.first)
                                                            : fmt::format("sink.wants_any({}, {})", slot.first, slot.count);
    for (auto& [name, binding] : scope.names) {
      if (binding.type.list && binding.type.optional && binding.type.base == Base::integer)
        binding.cpp = "launch::optional_dims(" + name + ")";
      const bool tensor = binding.type.is_tensor_like();
      const bool gradient = name.substr(0, 4) == "grad" && !entry.schema.find(name);
      if (!tensor || gradient) continue;
      binding.properties = properties[name];
      const auto use = read->uses.find(name);
      if (use == read->uses.end() || use->second.whole == 0) continue;
      if (use->second.whole == 1) {
        binding.cpp = name + ".get(*this)";
      } else {
        const bool list = binding.type.list;
        statement.hoisted.push_back(
            fmt::format("const {} {} = this->{}.get(*this);", list ? "std::vector<Tensor>" : "Tensor", name, name));
      }
    }
    if (entry.schema.results.size() == 1 && !list_result(entry)) {
      scope.names.at("grad").cpp = "grad";
      grad_reads += read->uses.count("grad") ? 1 : 0;
    }
    for (const auto& [let, value] : rule.formula.lets) {
      const Lowered lowered = lower(value, scope);
      statement.hoisted.push_back(fmt::format("const auto {} = {};", let, lowered.cpp));
      scope.names[let] = {lowered.type, let, {}, ""};
    }
    const Lowered lowered = lower(rule.formula.body, scope);
    statement.formula = lowered.cpp;
    statement.type = lowered.type;
    // Does the formula yield what its inputs want?
    if (rule.keys.size() == 1) {
      const Slot& slot = *statement.slots[0];
      const bool list = slot.argument->type.list;
      const bool none = lowered.type.base == Base::none && !lowered.type.list;
      if (none)
        statement.formula = "Tensor()";
      else if (lowered.type.base != Base::tensor || lowered.type.list != list)
        throw Problem(rule.formula.body->at, fmt::format("the gradient of '{}' must be {}, but the formula is {}", rule.keys[0],
                                                         list ? "Tensor[]" : "Tensor", lowered.type.to_string()));
    } else if (lowered.type.base != Base::tuple || lowered.type.elements.size() != rule.keys.size()) {
      throw Problem(rule.formula.body->at, fmt::format("the formula of '{}' must give {} gradients, but it is {}",
                                                       join(rule.keys), rule.keys.size(), lowered.type.to_string()));
    }
    plan.calls.insert(scope.calls.begin(), scope.calls.end());
    plan.statements.push_back(std::move(statement));
  }
  plan.reads_grad = grad_reads > 0;
  return plan;
}

}  // namespace opgen
