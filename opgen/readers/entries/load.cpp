#include "opgen/readers/entries/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "opgen/readers/entries/types.h"
#include "opgen/text/strings.h"
#include "opgen/text/yaml_file.h"

namespace opgen {
namespace {

const std::vector<std::string> kFields = {"func",    "doc",   "pointwise", "kernel",  "native",   "composite", "derivative",
                                          "result",  "check", "wrap",      "strided", "dtypes",   "variants",  "nested",
                                          "samples", "tests", "recompute", "linear",  "metadata", "math"};
constexpr std::array<const char*, 3> kDimNames = {"the batch", "a ragged dim", "a regular dim"};
const std::vector<std::string> kBodies = {"pointwise", "kernel", "native", "composite"};

std::vector<std::string> split_keys(const std::string& text) {
  std::vector<std::string> keys;
  std::string key;
  for (const char character : text + ",") {
    if (character == ',') {
      keys.push_back(key);
      key.clear();
    } else if (character != ' ' && character != '\n') {
      key += character;
    }
  }
  return keys;
}

/// `samples: set` or a list of calls; a set is such a list too.
void check_samples_list(const YamlFile& file, const Tree& node) {
  const bool name = node.is_scalar() && !node.scalar().empty();
  if (!name && (!node.is_list() || node.size() == 0))
    file.fail(node, "samples are the name of a set, or a list [{argument: value}, ...] with at least one");
}

class EntryLoader {
 public:
  EntryLoader(const YamlFile& file, const Tree& node, const DeclaredTypes& types) : file_(file), node_(node), types_(types) {}

  std::shared_ptr<Entry> load() {
    if (!node_.is_map() || !node_["func"]) file_.fail(node_, "an entry begins with 'func: name(arguments) -> results'");
    entry_ = std::make_shared<Entry>();
    const Text func = file_.text(node_["func"], "func");
    entry_->at = func.at(0);
    entry_->schema = parse_schema(func, types_);
    file_.check_keys(node_, fmt::format("the entry of '{}'", entry_->name()), kFields);
    if (node_["doc"]) entry_->doc = file_.text(node_["doc"], "doc").value();
    body();
    math();
    result_rules();
    checks();
    wraps();
    strided();
    inputs_said("linear", entry_->linear_in);
    inputs_said("metadata", entry_->metadata);
    dtypes();
    variants();
    derivative();
    recompute();
    nested();
    samples();
    return entry_;
  }

 private:
  Formula formula(const Tree& node, const std::string& field) const {
    Formula formula = parse_formula(file_.text(node, field));
    for (const auto& [name, value] : formula.lets) {
      bool taken = entry_->schema.find(name) != nullptr || entry_->schema.find_group(name) != nullptr || name == "grad" ||
                   name == "grads" || name == "sink" || name == "level" || name == "node";
      for (size_t i = 0; i < entry_->schema.results.size(); ++i) taken = taken || entry_->result_name(i) == name;
      if (taken) throw Problem(value->at, fmt::format("'let' may not define '{}', which means something already", name));
    }
    return formula;
  }
  ExprPtr expression(const Tree& node, const std::string& field) const { return inline_lets(formula(node, field)); }

  void body() {
    std::vector<std::string> found;
    for (const std::string& candidate : kBodies) {
      if (node_[candidate]) found.push_back(candidate);
    }
    if (found.empty()) file_.fail(node_, fmt::format("'{}' has no body: give one of {}", entry_->name(), join(kBodies)));
    if (found.size() > 1)
      file_.fail(node_[found[1]],
                 fmt::format("'{}' has two bodies, '{}' and '{}': keep one", entry_->name(), found[0], found[1]));
    const Tree value = node_[found[0]];
    entry_->body_at = value.at();
    if (found[0] == "pointwise") {
      entry_->body = Entry::Body::pointwise;
      entry_->pointwise = expression(value, "pointwise");
    } else if (found[0] == "kernel") {
      entry_->body = Entry::Body::kernel;
      kernels(value);
    } else if (found[0] == "native") {
      if (!value.is_scalar() || value.scalar() != "true") file_.fail(value, "'native' takes no value but 'true'");
      entry_->body = Entry::Body::native;
    } else if (value.is_map() && !value["cpu"] && !value["cuda"]) {
      composite_cpp(value);
    } else if (value.is_scalar() && value.scalar() == "cpp") {
      file_.fail(value, "a composite in C++ says which ops it is made of: write {cpp: true, calls: [op, ...]}");
    } else {
      entry_->body = Entry::Body::composite;
      entry_->composite = value.is_map() ? by_device(value, "'composite'", entry_->composite_on) : formula(value, "composite");
    }
  }

  /// `composite: {cpp: true, calls: [linear, bmm]}`.
  void composite_cpp(const Tree& value) {
    file_.check_keys(value, "'composite'", {"cpp", "calls"});
    if (!value["cpp"] || value["cpp"].scalar() != "true" || !value["calls"] || !value["calls"].is_list())
      file_.fail(value, "a composite in C++ says which ops it is made of: write {cpp: true, calls: [op, ...]}");
    entry_->body = Entry::Body::composite_cpp;
    for (const auto& [ignored, element] : value["calls"].branches()) entry_->calls.push_back(file_.text(element, "calls"));
  }

  void kernels(const Tree& value) {
    file_.check_keys(value, "'kernel'", {"cpu", "cuda"});
    for (const Branch& pair : value.branches()) {
      Kernel kernel;
      kernel.at = pair.value.at();
      kernel.function = entry_->name();
      if (pair.value.is_map()) {
        file_.check_keys(pair.value, "a kernel", {"file", "function"});
        if (!pair.value["file"]) file_.fail(pair.value, "a kernel needs 'file: family/stem'");
        kernel.file = file_.text(pair.value["file"], "file").value();
        if (pair.value["function"]) kernel.function = file_.text(pair.value["function"], "function").value();
      } else {
        kernel.file = file_.text(pair.value, "kernel").value();
      }
      entry_->kernels[pair.key.scalar()] = kernel;
    }
    if (entry_->kernels.empty()) file_.fail(value, "'kernel' names no kernel: write {cpu: family/stem}");
  }

  void result_rules() {
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

  /// Of a record: {field: rule}, or like(x) and like(x, wanted) of another of the same type, field by field.
  void result_rule(const Tree& value, const Parameter& outcome) {
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
    const Group* const of =
        like && rule->args[0]->is(Expr::Kind::name) ? entry_->schema.find_group(rule->args[0]->text) : nullptr;
    if (of == nullptr || !(of->type.record == outcome.type.record))
      file_.fail(value,
                 fmt::format("the allocation rule of a record is {{{}: RULE, ...}}, or like(x) or like(x, wanted) of another {}",
                             fields[0].name, outcome.type.to_string()));
    for (size_t i = 0; i < fields.size(); ++i) {
      std::vector<ExprPtr> args = {make_expr(Expr::Kind::member, fields[i].name, {rule->args[0]}, rule->args[0]->at)};
      if (rule->args.size() == 2)
        args.push_back(make_expr(Expr::Kind::index, "",
                                 {rule->args[1], make_expr(Expr::Kind::number, std::to_string(i), {}, rule->args[1]->at)},
                                 rule->args[1]->at));
      entry_->result_rules.push_back(make_expr(Expr::Kind::call, "like", std::move(args), rule->at));
    }
  }

  void checks() {
    const Tree value = node_["check"];
    if (!value) return;
    if (entry_->body != Entry::Body::kernel && entry_->body != Entry::Body::composite)
      file_.fail(value,
                 fmt::format("'{}' has no place for checks: kernels and composites that are formulas have one", entry_->name()));
    const auto one = [&](const Tree& node) {
      file_.check_keys(node, "a check", {"of", "that", "says"});
      if (!node["that"] || !node["says"]) file_.fail(node, "a check is {that: CONDITION, says: \"message\"}");
      entry_->checks.push_back({"", expression(node["that"], "that"), file_.text(node["says"], "says")});
      if (!node["of"]) return;
      entry_->checks.back().of = file_.text(node["of"], "of").value();
      if (!entry_->schema.find(entry_->checks.back().of))
        file_.fail(node["of"], fmt::format("no argument is named '{}'", entry_->checks.back().of));
    };
    if (value.is_list()) {
      for (const auto& [ignored, element] : value.branches()) one(element);
    } else {
      one(value);
    }
  }

  void math() {
    const Tree value = node_["math"];
    if (!value) return;
    entry_->math = file_.text(value, "math").value();
    if (entry_->body == Entry::Body::pointwise || entry_->body == Entry::Body::composite)
      file_.fail(value, "'math' is for ops whose body is no formula; the one of this op is written as mathematics already");
  }

  void wraps() {
    const Tree value = node_["wrap"];
    if (!value) return;
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

  void strided() {
    const Tree value = node_["strided"];
    if (!value) return;
    if (value.is_scalar()) {
      entry_->strided_all = file_.boolean(value, "strided");
      return;
    }
    if (!value.is_list()) file_.fail(value, "'strided' is true, false or a list of tensor arguments");
    for (const auto& [ignored, element] : value.branches()) tensors_named(element, "strided", entry_->strided);
  }

  void tensors_named(const Tree& node, const std::string& field, std::vector<std::string>& inputs) {
    const std::string name = file_.text(node, field).value();
    for (const std::string& slot : slots_of(name)) {
      inputs.push_back(slot);
      const Argument* argument = entry_->schema.find(slot);
      if (argument == nullptr || !argument->type.is_tensor_like())
        file_.fail(node, fmt::format("no tensor argument is named '{}'", name));
    }
  }

  /// `linear: x` and `metadata: [x, y]`: what the body does not show.
  void inputs_said(const std::string& field, std::vector<std::string>& inputs) {
    const Tree value = node_[field];
    if (!value) return;
    if (entry_->body == Entry::Body::pointwise || entry_->body == Entry::Body::composite)
      file_.fail(value, fmt::format("'{}' is said of kernels, native ops and composites in C++: of '{}' the formula tells", field,
                                    entry_->name()));
    if (!value.is_list()) return tensors_named(value, field, inputs);
    for (const auto& [ignored, element] : value.branches()) tensors_named(element, field, inputs);
  }

  void dtypes() {
    const Tree value = node_["dtypes"];
    if (!value) return;
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

  void variants() {
    const Tree value = node_["variants"];
    if (!value) return;
    if (!value.is_list()) file_.fail(value, "'variants' is a list: [inplace, out]");
    for (const auto& [ignored, element] : value.branches()) {
      const std::string variant = file_.text(element, "variants").value();
      if (variant == "inplace")
        entry_->inplace = true;
      else if (variant == "out")
        entry_->out = true;
      else
        file_.fail(element, fmt::format("a variant is 'inplace' or 'out', not '{}'", variant));
    }
  }

  /// The rules of one key: one, or one for each case.
  std::vector<WrittenRule> rules(const Tree& key, const Tree& value) const {
    if (!value.is_list()) return {rule(key, value)};
    std::vector<WrittenRule> cases;
    ExprPtr others;  // holds where no case before does
    const auto both = [](const ExprPtr& a, const ExprPtr& b) {
      return a ? make_expr(Expr::Kind::binary, "&&", {a, b}, b->at) : b;
    };
    for (size_t i = 0; i < value.size(); ++i) {
      const Tree& element = value.element(i);
      const bool last = i + 1 == value.size();
      if (element.is_map()) file_.check_keys(element, "a case", {"when", "is", "otherwise"});
      if (!element.is_map() || (last ? !element["otherwise"] || element.size() != 1 : !element["when"] || !element["is"]))
        file_.fail(element, last ? "the last case is {otherwise: FORMULA}" : "a case is {when: CONDITION, is: FORMULA}");
      cases.push_back(rule(key, last ? element["otherwise"] : element["is"]));
      if (cases.back().each) file_.fail(key, "a formula for each element has no cases: write it with 'c ? a : b'");
      if (last) {
        cases.back().when = others;
      } else {
        const ExprPtr when = renamed(expression(element["when"], "when"));
        cases.back().when = both(others, when);
        others = both(others, make_expr(Expr::Kind::unary, "!", {when}, when->at));
      }
    }
    return cases;
  }

  ExprPtr renamed(const ExprPtr& expr) const {
    return rewrite(expr, [this](const ExprPtr& node) -> ExprPtr {
      if (!node->is(Expr::Kind::name) || canonical(node->text) == node->text) return nullptr;
      return make_expr(Expr::Kind::name, canonical(node->text), {}, node->at);
    });
  }

  Formula renamed(Formula formula) const {
    for (auto& [name, let] : formula.lets) let = renamed(let);
    if (formula.body) formula.body = renamed(formula.body);
    return formula;
  }

  /// `{cpu: FORMULA, cuda: FORMULA}`: the cpu's, and the others by device.
  Formula by_device(const Tree& value, const std::string& what, std::map<std::string, Formula>& others) const {
    file_.check_keys(value, what + " by device", {"cpu", "cuda"});
    if (!value["cpu"])
      file_.fail(value, fmt::format("{} has no formula for the cpu, where its tests run: add 'cpu: FORMULA'", what));
    for (const Branch& pair : value.branches()) {
      if (pair.key.scalar() != "cpu") others[pair.key.scalar()] = renamed(formula(pair.value, what));
    }
    return formula(value["cpu"], what);
  }

  WrittenRule rule(const Tree& key, const Tree& value) const {
    WrittenRule rule;
    std::vector<std::string> names = split_keys(key.scalar());
    each_element(key, names, rule);
    for (const std::string& name : names) {
      rule.written.push_back(canonical(name));
      const std::vector<std::string> slots = slots_of(rule.written.back());
      rule.keys.insert(rule.keys.end(), slots.begin(), slots.end());
    }
    rule.at = key.at();
    if (value.is_map())
      rule.formula = by_device(value, fmt::format("'{}'", key.scalar()), rule.devices);
    else if (value.is_scalar() && value.scalar() == "non_differentiable")
      rule.kind = WrittenRule::Kind::non_differentiable;
    else if (value.is_scalar() && value.scalar() == "auto_linear")
      rule.kind = WrittenRule::Kind::auto_linear;
    else if (value.is_scalar() && value.scalar() == "auto_element_wise")
      rule.kind = WrittenRule::Kind::auto_element_wise;
    else
      rule.formula = formula(value, "derivative");
    for (const auto& [name, let] : rule.formula.lets) {
      if (rule.each && name == "i") throw Problem(let->at, "'let' may not define 'i', the number of the element");
    }
    if (rule.each && rule.kind != WrittenRule::Kind::formula)
      file_.fail(value, fmt::format("'{}' is said of the whole list: leave '[i]' out", value.scalar()));
    rule.formula = renamed(std::move(rule.formula));
    return rule;
  }

  /// The tensors that a key stands for: x is all of a record, x.q one of its fields. A name that is unknown stands for itself.
  std::vector<std::string> slots_of(const std::string& name) const {
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

  /// The key `x[i]`: a formula for each element of a list.
  void each_element(const Tree& key, std::vector<std::string>& names, WrittenRule& rule) const {
    for (std::string& name : names) {
      if (!name.ends_with("[i]")) continue;
      rule.each = true;
      name.resize(name.size() - 3);
    }
    if (!rule.each) return;
    if (names.size() > 1) file_.fail(key, fmt::format("a formula for each element is that of one list: '{}[i]'", names[0]));
    if (entry_->schema.find("i"))
      file_.fail(key, "in a formula for each element 'i' is its number: give the argument of this name another one");
  }

  /// result1 -> the name of that result, if it has one.
  std::string canonical(const std::string& name) const {
    for (size_t i = 0; i < entry_->schema.results.size(); ++i) {
      if (name == "result" + std::to_string(i)) return entry_->result_name(i);
    }
    return name;
  }

  size_t result_index(const std::string& name) const {
    size_t index = 0;
    while (entry_->result_name(index) != name) ++index;
    return index;
  }

  void derivative() {
    const Tree value = node_["derivative"];
    if (!value) return;
    entry_->derivative_given = true;
    entry_->derivative_at = value.at();
    if (value.is_scalar()) {
      if (value.scalar() == "auto") {
        if (entry_->body != Entry::Body::pointwise)
          file_.fail(value,
                     "'derivative: auto' differentiates a 'pointwise' expression, and this op has none: write the formulas");
        entry_->derivative_auto = true;
      } else if (value.scalar() == "non_differentiable") {
        entry_->non_differentiable = true;
      } else {
        file_.fail(value, fmt::format("'derivative' is auto, non_differentiable or formulas by input, not '{}'", value.scalar()));
      }
      return;
    }
    if (!value.is_map()) file_.fail(value, "'derivative' is auto, non_differentiable or formulas by input");
    std::vector<std::string> results, names;
    for (size_t i = 0; i < entry_->schema.results.size(); ++i) results.push_back(entry_->result_name(i));
    for (const Parameter& parameter : entry_->schema.parameters()) names.push_back(parameter.name);
    names.insert(names.end(), results.begin(), results.end());
    if (value["order"]) return order_limit(value);
    std::set<std::string> seen;
    for (const Branch& pair : value.branches()) {
      std::vector<WrittenRule> cases = rules(pair.key, pair.value);
      const WrittenRule& parsed = cases[0];
      bool is_result = false;
      for (const std::string& key : parsed.keys) {
        if (!seen.insert(key).second) file_.fail(pair.key, fmt::format("'{}' has two formulas", key));
        const bool result = std::find(results.begin(), results.end(), key) != results.end();
        if (!result && !entry_->schema.find(key))
          file_.fail(pair.key,
                     fmt::format("'{}' has no argument or result named '{}'{}", entry_->name(), key, did_you_mean(key, names)));
        if (!result && !entry_->schema.find(key)->type.is_tensor_like())
          file_.fail(pair.key, fmt::format("'{}' is of type {}: only tensors have derivatives", key,
                                           entry_->schema.find(key)->type.to_string()));
        const bool list = result ? entry_->schema.results[result_index(key)].type.list : entry_->schema.find(key)->type.list;
        if (parsed.each && !list) file_.fail(pair.key, fmt::format("'{}' is no list: write its formula without '[i]'", key));
        is_result = is_result || result;
      }
      for (WrittenRule& parsed_case : cases) {
        const bool formula = parsed_case.kind == WrittenRule::Kind::formula;
        const bool constant = is_result && parsed_case.kind == WrittenRule::Kind::non_differentiable;
        if (cases.size() > 1 && !formula && !constant)
          file_.fail(pair.value, is_result ? "a case is a formula or non_differentiable"
                                           : "a case is a formula; 'none' where there is no gradient");
        (is_result ? entry_->forward : entry_->reverse).push_back(std::move(parsed_case));
      }
    }
  }

  /// `derivative: {order: 2, of: attention}`.
  void order_limit(const Tree& value) {
    file_.check_keys(value, "'derivative' with an order", {"order", "of"});
    const std::optional<int64_t> order = whole_number(value["order"].scalar());
    if (!order || *order < 1 || *order > 3) file_.fail(value["order"], "'order' is the last one that exists: 1, 2 or 3");
    entry_->limit.order = static_cast<int>(*order);
    entry_->limit.of = value["of"] ? file_.text(value["of"], "of").value() : entry_->name();
  }

  /// `recompute: result`, or a list of results.
  void recompute() {
    const Tree value = node_["recompute"];
    if (!value) return;
    const auto one = [&](const Tree& name) {
      const std::string written = canonical(file_.text(name, "recompute").value());
      std::vector<std::string> results;
      for (const Parameter& outcome : entry_->schema.outcomes())
        results.push_back(outcome.is_record() ? outcome.name : entry_->result_name(outcome.first));
      for (const Group& record : entry_->schema.result_groups) {
        if (written == record.name || written.rfind(record.name + ".", 0) == 0)
          file_.fail(name, fmt::format("'{}' is a record: what is computed again is a result that stands alone", record.name));
      }
      if (std::find(results.begin(), results.end(), written) == results.end())
        file_.fail(name, fmt::format("'{}' has no result named '{}'{}", entry_->name(), written, did_you_mean(written, results)));
      entry_->recompute.push_back(written);
    };
    if (entry_->takes(Base::generator)) file_.fail(value, "what is drawn at random cannot be computed again: it is saved");
    if (entry_->writes_argument()) file_.fail(value, "what is written cannot be computed again: it is saved");
    if (value.is_list()) {
      for (const auto& [ignored, element] : value.branches()) one(element);
    } else {
      one(value);
    }
  }

  void nested() {
    const Tree value = node_["nested"];
    if (!value) return;
    NestedRule& rule = entry_->nested;
    rule.at = value.at();
    if (value.is_scalar()) {
      static const std::map<std::string, NestedRule::Kind> kWords = {
          {"values", NestedRule::Kind::values}, {"rows", NestedRule::Kind::rows}, {"whole", NestedRule::Kind::whole}};
      const auto word = kWords.find(value.scalar());
      if (word == kWords.end())
        file_.fail(value, fmt::format("'nested' is values, rows, whole, {{segment: OP}}, {{cpp: {{batch, ragged, regular}}}} or "
                                      "{{error: reason}}, not '{}'",
                                      value.scalar()));
      rule.kind = word->second;
      rule.rows = rule.kind == NestedRule::Kind::rows;
      rule.dense = rule.kind == NestedRule::Kind::whole;
      return;
    }
    static const std::map<std::string, NestedRule::Kind> kKinds = {{"cpp", NestedRule::Kind::cpp},
                                                                   {"error", NestedRule::Kind::error},
                                                                   {"segment", NestedRule::Kind::segment},
                                                                   {"values", NestedRule::Kind::values}};
    file_.check_keys(value, "'nested'", {"values", "segment", "error", "cpp", "dense", "on", "inserts", "rows", "samples"});
    std::vector<std::string> kinds;
    for (const auto& [word, kind] : kKinds) {
      if (!value[word]) continue;
      kinds.push_back(word);
      rule.kind = kind;
    }
    if (kinds.empty()) file_.fail(value, "'nested' says nothing: give values, segment, cpp or error");
    if (kinds.size() > 1)
      file_.fail(value[kinds[1]], fmt::format("'nested' has two rules, '{}' and '{}': keep one", kinds[0], kinds[1]));
    const bool by_hand = rule.kind == NestedRule::Kind::cpp;
    for (const char* word : {"dense", "inserts", "rows", "samples"}) {
      if (value[word] && !by_hand) file_.fail(value[word], fmt::format("'{}' belongs to 'cpp'", word));
    }
    if (value["values"]) file_.boolean(value["values"], "values");
    if (value["segment"]) rule.segment = file_.text(value["segment"], "segment").value();
    if (value["error"]) rule.error = file_.text(value["error"], "error").value();
    if (value["inserts"]) rule.inserts = file_.text(value["inserts"], "inserts").value();
    if (value["inserts"] && !entry_->schema.find(rule.inserts))
      file_.fail(value["inserts"], fmt::format("no argument is named '{}'", rule.inserts));
    if (value["on"] && !value["on"].is_list()) file_.fail(value["on"], "'on' is a list of tensor arguments: [input, target]");
    if (value["samples"]) check_samples_list(file_, value["samples"]);
    if (value["samples"]) entry_->nested_samples = value["samples"];
    if (by_hand) dims_by_hand(value["cpp"]);
    rule.rows = value["rows"] && file_.boolean(value["rows"], "rows");
    rule.dense = value["dense"] && file_.boolean(value["dense"], "dense");
    for (const auto& [ignored, element] : value["on"].branches()) {
      if (element.is_list() && rule.kind == NestedRule::Kind::cpp) rule.choices.push_back(nested_arguments(element));
    }
    if (rule.choices.empty()) rule.on = nested_arguments(value["on"]);
  }

  /// `cpp: {batch: TEXT, ragged: TEXT, regular: {error: REASON}}`.
  void dims_by_hand(const Tree& value) {
    file_.check_keys(value, "'cpp'", {kDimKinds.begin(), kDimKinds.end()});
    for (size_t kind = 0; kind < kDimKinds.size(); ++kind) {
      const Tree given = value[kDimKinds[kind]];
      if (given && given.is_map()) file_.check_keys(given, fmt::format("'{}'", kDimKinds[kind]), {"error"});
      DimRule& rule = entry_->nested.over[kind];
      rule.refused = given && given.is_map();
      const Tree text = rule.refused ? given["error"] : given;
      if (!text)
        file_.fail(value, fmt::format("'cpp' does not say what '{}' does over {}: write a text, or {{error: reason}}",
                                      entry_->name(), kDimNames[kind]));
      rule.text = file_.text(text, kDimKinds[kind]).value();
    }
  }

  std::vector<std::string> nested_arguments(const Tree& names) {
    std::vector<std::string> result;
    for (const auto& [ignored, element] : names.branches()) {
      const Argument* argument = element.is_scalar() ? entry_->schema.find(element.scalar()) : nullptr;
      const bool fits = argument != nullptr && argument->path.empty() && argument->type.is_tensor_like() &&
                        (!argument->type.list || entry_->nested.kind == NestedRule::Kind::cpp);
      if (!fits)
        file_.fail(element, fmt::format("no tensor argument is named '{}'", element.is_scalar() ? element.scalar() : "[...]"));
      result.push_back(element.scalar());
    }
    return result;
  }

  void samples() {
    if (node_["samples"]) check_samples_list(file_, node_["samples"]);
    entry_->samples = node_["samples"];
    const Tree tests = node_["tests"];
    if (!tests) return;
    file_.check_keys(tests, "'tests'", {"gradients", "strided", "because"});
    entry_->test_gradients = !tests["gradients"] || file_.boolean(tests["gradients"], "gradients");
    entry_->test_strided = !tests["strided"] || file_.boolean(tests["strided"], "strided");
    if ((!entry_->test_gradients || !entry_->test_strided) && !tests["because"])
      file_.fail(tests, "tests that are left out need a reason: 'because: ...'");
  }

  const YamlFile& file_;
  const Tree& node_;
  const DeclaredTypes& types_;
  std::shared_ptr<Entry> entry_;
};

/// A pattern of functions.yaml, without its positions: errors belong to the expression in which it is used.
ExprPtr pattern_of(const Text& text) {
  const std::function<ExprPtr(const ExprPtr&)> unplaced = [&](const ExprPtr& node) -> ExprPtr {
    std::vector<ExprPtr> args;
    for (const ExprPtr& argument : node->args) args.push_back(unplaced(argument));
    return std::make_shared<Expr>(node->kind, node->text, std::move(args), node->keys, Position{});
  };
  return unplaced(inline_lets(parse_formula(text)));
}

ScalarFunction load_scalar(const YamlFile& file, const Tree& node) {
  file.check_keys(node, "a scalar function", {"func", "derivative", "vanishes", "integer", "boolean", "means"});
  if (!node["func"]) file.fail(node, "a scalar function begins with 'func: name(x)'");
  ScalarFunction function;
  const ExprPtr call = inline_lets(parse_formula(file.text(node["func"], "func")));
  if (!call->is(Expr::Kind::call)) file.fail(node["func"], "a scalar function is declared as name(x) or name(x, y)");
  function.name = call->text;
  for (const ExprPtr& parameter : call->args) {
    if (!parameter->is(Expr::Kind::name)) file.fail(node["func"], "a scalar function is declared as name(x) or name(x, y)");
    function.parameters.push_back(parameter->text);
  }
  function.bits = node["integer"] && file.text(node["integer"], "integer").value() == "only";
  function.integer = node["integer"] && (function.bits || file.boolean(node["integer"], "integer"));
  function.boolean = node["boolean"] && file.boolean(node["boolean"], "boolean");
  function.derivatives.resize(function.parameters.size());
  if (node["derivative"]) {
    file.check_keys(node["derivative"], fmt::format("the derivative of '{}'", function.name), function.parameters);
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      const Tree formula = node["derivative"][function.parameters[i]];
      if (formula) function.derivatives[i] = pattern_of(file.text(formula, "derivative"));
    }
  }
  if (node["means"]) function.means = pattern_of(file.text(node["means"], "means"));
  if (node["vanishes"]) {
    if (!node["vanishes"].is_list()) file.fail(node["vanishes"], "'vanishes' is a list of expressions");
    for (const auto& [ignored, pattern] : node["vanishes"].branches())
      function.vanishes.push_back(pattern_of(file.text(pattern, "vanishes")));
  }
  return function;
}

}  // namespace

namespace {

/// One entry file, whose items are read by kind.
struct EntryFile {
  YamlFile yaml;
  std::string stem;
  EntryInput input;

  /// Calls `load` for every item of the kind; problems of an item do not touch the next.
  template <typename Load>
  void each(Item kind, Problems& problems, const Load& load) const {
    for (const auto& [ignored, node] : yaml.root().branches()) {
      if (item_of(node) != kind) continue;
      try {
        load(node);
      } catch (const Problem& problem) {
        problems.emplace_back(problem.what());
      }
    }
  }
};

/// `headers: {simd: acme/math.h, reference: acme/reference.h, shapes: acme/shapes.h}`: where the C++ is that the file declares.
void load_headers(const YamlFile& file, const Home& home, Library& library) {
  const Tree& root = file.root();
  if (home.is_deckle()) {
    if (root["headers"]) file.fail(root["headers"], "Deckle's own headers are known: leave 'headers' out");
    return;
  }
  FunctionHeaders& headers = library.headers[home.space];
  if (const Tree given = root["headers"]) {
    file.check_keys(given, "'headers'", {"simd", "reference", "shapes"});
    const auto read = [&](const char* key, std::string& header) {
      if (given[key]) header = file.text(given[key], key).value();
    };
    read("simd", headers.simd);
    read("reference", headers.reference);
    read("shapes", headers.shapes);
  }
  if (root["scalar"] && (headers.simd.empty() || headers.reference.empty()))
    file.fail(root["scalar"],
              "scalar functions are C++ in two headers: add 'headers: {simd: on vectors, reference: in double, for tests}'");
  if (root["helpers"] && headers.shapes.empty())
    file.fail(root["helpers"], "helpers are C++ in a header: add 'headers: {shapes: the file that declares them}'");
}

void load_entry(const EntryFile& file, const Tree& node, Library& library) {
  std::shared_ptr<Entry> entry = EntryLoader(file.yaml, node, library.types).load();
  entry->stem = file.stem;
  entry->external = file.input.external;
  entry->home = file.input.home;
  for (const Entry* other : library.named(entry->name())) {
    if (other->unique_name() != entry->unique_name()) continue;
    if (other->home.space != entry->home.space)
      throw Problem(entry->at,
                    fmt::format("'{}' is an op of '{}' already, at {}: formulas could not tell them apart; give this one "
                                "another name",
                                entry->unique_name(), other->home.space, other->at.to_string()));
    throw Problem(entry->at, fmt::format("'{}' stands twice; the first is at {}", entry->unique_name(), other->at.to_string()));
  }
  library.entries.push_back(std::move(entry));
}

}  // namespace

void load_entries(const std::vector<EntryInput>& inputs, Library& library, Problems& problems) {
  std::vector<EntryFile> files;
  for (const EntryInput& input : inputs) {
    try {
      YamlFile yaml(input.path, input.name);
      if (yaml.root().is_null()) continue;
      if (!yaml.root().is_list()) yaml.fail(yaml.root(), "an entry file is a list of '- func:' entries");
      files.push_back({std::move(yaml), std::filesystem::path(input.path).stem().string(), input});
    } catch (const Problem& problem) {
      problems.emplace_back(problem.what());
    }
  }
  for (const Item kind : {Item::enumeration, Item::record}) {
    for (const EntryFile& file : files)
      file.each(kind, problems, [&](const Tree& node) { load_type(file.yaml, node, file.input, file.stem, library); });
  }
  for (const EntryFile& file : files) file.each(Item::op, problems, [&](const Tree& node) { load_entry(file, node, library); });
}

void load_functions(const std::string& path, const std::string& name, Library& library, Problems& problems, const Home& home) {
  try {
    const YamlFile file(path, name);
    if (file.root().is_null()) return;
    file.check_keys(file.root(), name, {"scalar", "helpers", "samples", "headers"});
    load_headers(file, home, library);
    const auto each = [&](const char* section, const auto& load) {
      if (!file.root()[section]) return;
      if (!file.root()[section].is_list()) file.fail(file.root()[section], fmt::format("'{}' is a list", section));
      for (const auto& [ignored, node] : file.root()[section].branches()) {
        try {
          load(node);
        } catch (const Problem& problem) {
          problems.emplace_back(problem.what());
        }
      }
    };
    each("scalar", [&](const Tree& node) {
      ScalarFunction function = load_scalar(file, node);
      function.home = home;
      const auto other = library.functions.find(function.name);
      if (other != library.functions.end() && other->second.home.space != home.space)
        file.fail(node["func"], fmt::format("'{}' is a scalar function of '{}' already: give this one another name",
                                            function.name, other->second.home.space));
      if (other != library.functions.end()) file.fail(node, fmt::format("the scalar function '{}' stands twice", function.name));
      library.functions[function.name] = std::move(function);
    });
    each("helpers", [&](const Tree& node) {
      Helper helper{parse_schema(file.text(node, "helpers"), library.types), home};
      std::vector<Helper>& overloads = library.helpers[helper.schema.name];
      for (const Helper& other : overloads) {
        if (other.schema.to_string() == helper.schema.to_string())
          file.fail(node, fmt::format("the helper '{}' stands twice", helper.schema.to_string()));
      }
      overloads.push_back(std::move(helper));
    });
    if (file.root()["samples"]) {
      if (!file.root()["samples"].is_map()) file.fail(file.root()["samples"], "'samples' is a map of named sets");
      for (const Branch& pair : file.root()["samples"].branches()) {
        if (pair.value.is_scalar()) file.fail(pair.value, "a set of samples is a list");
        check_samples_list(file, pair.value);
        if (!library.sample_sets.emplace(pair.key.scalar(), pair.value).second)
          file.fail(pair.key, fmt::format("the sample set '{}' stands twice", pair.key.scalar()));
      }
    }
  } catch (const Problem& problem) {
    problems.emplace_back(problem.what());
  }
}

}  // namespace opgen
