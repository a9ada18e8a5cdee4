#include "opgen/readers/entries/entry.h"

#include <fmt/format.h>

#include "opgen/text/strings.h"

namespace opgen {
namespace {

const std::vector<std::string> kBodies = {"pointwise", "kernel", "native", "composite"};

const std::string kCompositeInCpp =
    "a composite in C++ says which ops it is made of and why it is no formula: write {cpp: true, calls: [op, ...], because: "
    "REASON}";

}  // namespace

void EntryReader::body() {
  std::vector<std::string> found;
  for (const std::string& candidate : kBodies) {
    if (node_[candidate]) found.push_back(candidate);
  }
  if (found.empty()) file_.fail(node_, fmt::format("'{}' has no body: give one of {}", entry_->name(), join(kBodies)));
  if (found.size() > 1)
    file_.fail(node_[found[1]], fmt::format("'{}' has two bodies, '{}' and '{}': keep one", entry_->name(), found[0], found[1]));
  const Tree value = node_[found[0]];
  entry_->body_at = value.at();
  if (found[0] == "pointwise") {
    entry_->body = Entry::Body::pointwise;
    entry_->pointwise = expression(value, "pointwise");
  } else if (found[0] == "kernel") {
    entry_->body = Entry::Body::kernel;
    entry_->kernels = kernels(value, entry_->name());
  } else if (found[0] == "native") {
    if (!value.is_scalar() || value.scalar() != "true") file_.fail(value, "'native' takes no value but 'true'");
    entry_->body = Entry::Body::native;
  } else if (value.is_map() && !value["cpu"] && !value["cuda"]) {
    composite_cpp(value);
  } else if (value.is_scalar() && value.scalar() == "cpp") {
    file_.fail(value, kCompositeInCpp);
  } else {
    entry_->body = Entry::Body::composite;
    value.is_map() ? composite_by_device(value) : void(entry_->composite = formula(value, "composite"));
  }
}

void EntryReader::composite_by_device(const Tree& value) {
  file_.check_keys(value, "'composite' by device", {"cpu", "cuda"});
  if (!value["cpu"]) file_.fail(value, "'composite' has no formula for the cpu, where its tests run: add 'cpu: FORMULA'");
  entry_->composite = formula(value["cpu"], "composite");
  if (value["cuda"]) entry_->composite_on["cuda"] = formula(value["cuda"], "composite");
}

void EntryReader::composite_cpp(const Tree& value) {
  file_.check_keys(value, "'composite'", {"cpp", "calls", "because"});
  const Tree because = value["because"];
  if (!value["cpp"] || value["cpp"].scalar() != "true" || !value["calls"] || !value["calls"].is_list() || !because)
    file_.fail(value, kCompositeInCpp);
  entry_->body = Entry::Body::composite_cpp;
  entry_->because = file_.text(because, "because").value();
  if (entry_->because.empty()) file_.fail(because, kCompositeInCpp);
  for (const auto& [ignored, element] : value["calls"].branches()) entry_->calls.push_back(file_.text(element, "calls"));
}

std::map<std::string, Kernel> EntryReader::kernels(const Tree& value, const std::string& function) const {
  std::map<std::string, Kernel> found;
  file_.check_keys(value, "'kernel'", {"cpu", "cuda"});
  for (const Branch& pair : value.branches()) {
    Kernel kernel;
    kernel.at = pair.value.at();
    kernel.function = function;
    if (pair.value.is_map()) {
      file_.check_keys(pair.value, "a kernel", {"file", "function"});
      if (!pair.value["file"]) file_.fail(pair.value, "a kernel needs 'file: family/stem'");
      kernel.file = file_.text(pair.value["file"], "file").value();
      if (pair.value["function"]) kernel.function = file_.text(pair.value["function"], "function").value();
    } else {
      kernel.file = file_.text(pair.value, "kernel").value();
    }
    found[pair.key.scalar()] = kernel;
  }
  if (found.empty()) file_.fail(value, "'kernel' names no kernel: write {cpu: family/stem}");
  return found;
}

void EntryReader::result_rules() {
  const Tree value = node_["result"];
  if (!value) {
    if (entry_->body == Entry::Body::kernel)
      file_.fail(node_,
                 fmt::format("'{}' has a kernel, so it needs 'result:', the allocation rule, e.g. like(self)", entry_->name()));
    return;
  }
  if (entry_->body != Entry::Body::kernel) file_.fail(value, "only entries with a 'kernel' have an allocation rule");
  const std::vector<Parameter> outcomes = entry_->schema.outcomes();
  const size_t given = value.is_list() ? value.size() : 1;
  if (given != outcomes.size()) file_.fail(value, fmt::format("{} allocation rules for {} results", given, outcomes.size()));
  for (size_t i = 0; i < given; ++i) result_rule(value.is_list() ? value.element(i) : value, outcomes[i]);
}

void EntryReader::result_rule(const Tree& value, const Parameter& outcome) {
  if (!outcome.is_record()) return entry_->result_rules.push_back(expression(value, "result"));
  const std::vector<Argument>& fields = outcome.type.record->fields;
  if (value.is_map()) {
    std::vector<std::string> names;
    for (const Argument& field : fields) names.push_back(field.name);
    file_.check_keys(value, fmt::format("the result '{}'", outcome.name), names);
    for (const std::string& name : names) {
      if (!value[name]) file_.fail(value, fmt::format("no allocation rule for '{}' of '{}'", name, outcome.name));
      entry_->result_rules.push_back(expression(value[name], "result"));
    }
    return;
  }
  const ExprPtr rule = expression(value, "result");
  const bool like = rule->is_call("like") && !rule->args.empty() && rule->args.size() < 3;
  const Group* const of = like && rule->args[0]->is(ExprKind::name) ? entry_->schema.find_group(rule->args[0]->text) : nullptr;
  if (of == nullptr || !(of->type.record == outcome.type.record))
    file_.fail(value,
               fmt::format("the allocation rule of a record is {{{}: RULE, ...}}, or like(x) or like(x, wanted) of another {}",
                           fields[0].name, outcome.type.to_string()));
  for (size_t i = 0; i < fields.size(); ++i) {
    std::vector<ExprPtr> args = {make_expr(ExprKind::member, fields[i].name, {rule->args[0]}, rule->args[0]->at)};
    if (rule->args.size() == 2)
      args.push_back(make_expr(ExprKind::index, "",
                               {rule->args[1], make_expr(ExprKind::number, std::to_string(i), {}, rule->args[1]->at)},
                               rule->args[1]->at));
    entry_->result_rules.push_back(make_expr(ExprKind::call, "like", std::move(args), rule->at));
  }
}

void EntryReader::checks() {
  const Tree value = node_["check"];
  if (!value) return;
  if (entry_->body == Entry::Body::native || entry_->body == Entry::Body::composite_cpp)
    file_.fail(value,
               fmt::format("'{}' has no place for checks: pointwise ops, kernels and composites that are formulas have one",
                           entry_->name()));
  const auto one = [&](const Tree& node) {
    file_.check_keys(node, "a check", {"of", "that", "says", "by_hand"});
    if (!node["that"] || !node["says"]) file_.fail(node, "a check is {that: CONDITION, says: \"message\"}");
    WrittenCheck& check = entry_->checks.emplace_back();
    check.condition = expression(node["that"], "that");
    check.says = file_.text(node["says"], "says");
    if (node["by_hand"]) check.by_hand = file_.sentence(node["by_hand"], "by_hand");
    if (node["by_hand"] && !node_["nested"]["cpp"])
      file_.fail(node["by_hand"], fmt::format("'by_hand' is said where the overload for nested tensors is written by hand, "
                                              "'nested: {{cpp: ...}}', which that of '{}' is not",
                                              entry_->name()));
    if (!node["of"]) return;
    check.of = file_.text(node["of"], "of").value();
    const std::vector<Argument>& arguments = entry_->schema.arguments;
    const bool known =
        entry_->schema.find_group(check.of) != nullptr ||
        std::any_of(arguments.begin(), arguments.end(), [&](const Argument& argument) { return argument.label() == check.of; });
    if (!known) file_.fail(node["of"], fmt::format("no argument is named '{}'", check.of));
  };
  if (value.is_list()) {
    for (const auto& [ignored, element] : value.branches()) one(element);
  } else {
    one(value);
  }
}

void EntryReader::math() {
  const Tree value = node_["math"];
  if (!value) return;
  entry_->math = file_.text(value, "math").value();
  if (entry_->body == Entry::Body::pointwise || entry_->body == Entry::Body::composite)
    file_.fail(value, "'math' is for ops whose body is no formula; the one of this op is written as mathematics already");
}

void EntryReader::require_kernel(const Tree& value, const std::string& field) const {
  if (entry_->body != Entry::Body::kernel)
    file_.fail(value, fmt::format("'{}' is said of kernels, which '{}' has none of: leave it out", field, entry_->name()));
}

void EntryReader::wraps() {
  const Tree value = node_["wrap"];
  if (!value) return;
  require_kernel(value, "wrap");
  if (value.is_scalar()) {
    if (value.scalar() != "none") file_.fail(value, "'wrap' is 'none' or {dim: NUMBER OF DIMS}");
    entry_->wrap_dims = false;
    return;
  }
  if (!value.is_map()) file_.fail(value, "'wrap' is 'none' or {dim: NUMBER OF DIMS}");
  for (const Branch& pair : value.branches()) {
    if (!entry_->schema.find(pair.key.scalar()))
      file_.fail(pair.key, fmt::format("no argument is named '{}'", pair.key.scalar()));
    entry_->wraps[pair.key.scalar()] = expression(pair.value, "wrap");
  }
}

void EntryReader::strided() {
  const Tree value = node_["strided"];
  if (!value) return;
  require_kernel(value, "strided");
  if (value.is_scalar()) {
    entry_->strided_all = file_.boolean(value, "strided");
    return;
  }
  if (!value.is_list()) file_.fail(value, "'strided' is true, false or a list of tensor arguments");
  entry_->strided = tensors_named(value, "strided");
}

void EntryReader::permuted() {
  const Tree value = node_["permuted"];
  if (!value) return;
  const Schema& schema = entry_->schema;
  if (entry_->body != Entry::Body::kernel || schema.results.size() != 1 || !schema.results[0].type.is_tensor())
    file_.fail(value, "'permuted' is said of kernels with one tensor as their result");
  entry_->permuted_slices = value.is_map();
  if (value.is_map()) file_.check_keys(value, "'permuted'", {"slices"});
  const Tree arguments = value.is_map() ? value["slices"] : value;
  if (!arguments.is_list()) file_.fail(value, "'permuted' is a list of arguments, tensors and what are sizes, or {slices: LIST}");
  for (const Argument& argument : schema.arguments) {
    if (is_dim(argument) && (argument.type.list || argument.type.optional))
      file_.fail(value, fmt::format("'permuted' is said of kernels with plain dims, and '{}' is none", argument.name));
  }
  if (entry_->permuted_slices && !schema.find("dim"))
    file_.fail(value, "'slices' lie along an argument 'dim', and there is none");
  bool tensors = false;
  for (const auto& [ignored, element] : arguments.branches()) {
    const std::string name = file_.text(element, "permuted").value();
    const Argument* const argument = schema.find(name);
    const bool given = argument != nullptr && !argument->type.optional;
    const bool tensor = given && argument->type.is_tensor();
    if (!tensor && !(given && argument->type.is_list_of(Base::integer)))
      file_.fail(element, fmt::format("no tensor, nor list of sizes, is named '{}'", name));
    tensors = tensors || tensor;
    entry_->permuted.push_back(name);
  }
  if (!tensors) file_.fail(value, "'permuted' names one tensor or more");
  for (const Argument& argument : schema.arguments) {
    const auto& named = entry_->permuted;
    if (!entry_->permuted_slices && argument.type.is_tensor_like() &&
        std::find(named.begin(), named.end(), argument.name) == named.end())
      file_.fail(value, fmt::format("'permuted' leaves out '{}', which would lie in another way than the others", argument.name));
  }
}

std::vector<std::string> EntryReader::tensors_named(const Tree& node, const std::string& field) const {
  std::vector<std::string> inputs;
  if (node.is_list()) {
    for (const auto& [ignored, element] : node.branches()) {
      const std::vector<std::string> more = tensors_named(element, field);
      inputs.insert(inputs.end(), more.begin(), more.end());
    }
    return inputs;
  }
  const std::string name = file_.text(node, field).value();
  for (const std::string& slot : slots_of(name)) {
    inputs.push_back(slot);
    const Argument* argument = entry_->schema.find(slot);
    const bool number = field == "linear" && argument != nullptr && argument->type.is_number();
    if (argument == nullptr || (!argument->type.is_tensor_like() && !number))
      file_.fail(node, fmt::format("no tensor argument is named '{}'", name));
  }
  return inputs;
}

Tree EntryReader::said(const std::string& field) const {
  const Tree value = node_[field];
  if (value && (entry_->body == Entry::Body::pointwise || entry_->body == Entry::Body::composite))
    file_.fail(value, fmt::format("'{}' is said of kernels, native ops and composites in C++: of '{}' the formula tells", field,
                                  entry_->name()));
  return value;
}

void EntryReader::linear() {
  const Tree value = said("linear");
  if (!value) return;
  const auto add = [this](const Tree& set) {
    if (!set.is_map()) return entry_->linear_in.push_back({tensors_named(set, "linear")});
    for (const Branch& pair : set.branches())
      entry_->linear_in.push_back({tensors_named(pair.value, "linear"), results_named(pair.key)});
  };
  const bool sets = value.is_list() && std::any_of(value.branches().begin(), value.branches().end(),
                                                   [](const Branch& element) { return !element.value.is_scalar(); });
  if (!sets) return add(value);
  for (const auto& [ignored, element] : value.branches()) add(element);
}

std::vector<size_t> EntryReader::results_named(const Tree& node) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < entry_->schema.results.size(); ++i) names.push_back(entry_->result_name(i));
  const std::string name = file_.text(node, "linear").value();
  std::vector<size_t> results;
  for (const std::string& slot : slots_of(canonical(name))) {
    const auto found = std::find(names.begin(), names.end(), slot);
    if (found == names.end())
      file_.fail(node, fmt::format("'{}' has no result named '{}'{}", entry_->name(), name, did_you_mean(name, names)));
    results.push_back(static_cast<size_t>(found - names.begin()));
  }
  return results;
}

void EntryReader::metadata() {
  if (const Tree value = said("metadata")) entry_->metadata = tensors_named(value, "metadata");
}

void EntryReader::host() {
  const Tree value = node_["host"];
  if (!value) return;
  if (entry_->body != Entry::Body::native && entry_->body != Entry::Body::composite_cpp)
    file_.fail(value, fmt::format("'host' is said of native ops and composites in C++, which '{}' is not", entry_->name()));
  entry_->host = file_.text(value, "host").value();
  if (entry_->host.empty()) file_.fail(value, "'host' says why the op computes on the host, wherever its operands are");
}

void EntryReader::cpu_only() {
  const Tree value = node_["cpu_only"];
  if (!value) return;
  if (entry_->body != Entry::Body::kernel || entry_->kernels.count("cuda") > 0)
    file_.fail(value,
               fmt::format("'cpu_only' is said of ops with a kernel for the CPU alone, which '{}' is not", entry_->name()));
  entry_->cpu_only = file_.text(value, "cpu_only").value();
  if (entry_->cpu_only.empty()) file_.fail(value, "'cpu_only' says why there is no CUDA kernel, and what a GPU runs instead");
}

void EntryReader::dtypes() {
  const Tree value = node_["dtypes"];
  if (!value) return;
  if (entry_->body != Entry::Body::kernel && entry_->body != Entry::Body::pointwise)
    file_.fail(value, fmt::format("'dtypes' is said of pointwise ops and kernels: what '{}' takes follows from what it calls",
                                  entry_->name()));
  const std::string text = file_.text(value, "dtypes").value();
  if (text == "floating")
    entry_->dtypes = Dtypes::floating;
  else if (text == "numeric")
    entry_->dtypes = Dtypes::numeric;
  else if (text == "all")
    entry_->dtypes = Dtypes::all;
  else if (text == "integral")
    entry_->dtypes = Dtypes::integral;
  else
    file_.fail(value, fmt::format("'dtypes' is floating, numeric, all or integral, not '{}'", text));
}

void EntryReader::autocast() {
  const Tree value = node_["autocast"];
  if (!value) return;
  AutocastRule& rule = entry_->autocast;
  rule.at = value.at();
  const bool some = value.is_map() && value.size() == 1;
  const Tree word = some ? value.branches().front().key : value;
  if (!word.is_scalar() || (word.scalar() != "half" && word.scalar() != "float32"))
    file_.fail(value, "'autocast' is half, float32, or one of the two with the inputs that it is of, as {half: [self]}");
  rule.to = word.scalar() == "half" ? AutocastRule::To::half : AutocastRule::To::float32;
  if (some) {
    const Tree inputs = value.branches().front().value;
    rule.of = tensors_named(inputs, "autocast");
  } else {
    for (const Argument* argument : entry_->tensors()) rule.of.push_back(argument->name);
  }
}

void EntryReader::variants() {
  const Tree value = node_["variants"];
  if (!value) return;
  if (!value.is_list()) file_.fail(value, "'variants' is a list: [method, inplace, out]");
  for (const auto& [ignored, element] : value.branches()) {
    const std::string variant = file_.text(element, "variants").value();
    if (variant == "inplace")
      entry_->inplace = true;
    else if (variant == "out")
      entry_->out = true;
    else if (variant == "method")
      entry_->method = true;
    else
      file_.fail(element, fmt::format("a variant is 'method', 'inplace' or 'out', not '{}'", variant));
  }
}

}  // namespace opgen
