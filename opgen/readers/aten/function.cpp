#include "opgen/readers/aten/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/text/strings.h"
#include "opgen/text/yaml_file.h"

namespace opgen::aten {
namespace {

const std::vector<std::string> kFields = split(
    "func, variants, dispatch, structured, structured_delegate, structured_inherits, autogen, tags, device_check, "
    "device_guard, python_module, category_override, cpp_no_default_args, manual_cpp_binding, "
    "manual_kernel_registration, use_const_ref_for_mutable_tensors, precomputed, ufunc_inner_loop",
    ',');

bool ends_with(const std::string& text, char last) { return !text.empty() && text.back() == last; }

Function::Kind kind_of(const Schema& schema) {
  bool writes = false, writes_keyword = false;
  for (const Argument& argument : schema.arguments) {
    if (!argument.alias || !argument.alias->written) continue;
    (argument.keyword_only ? writes_keyword : writes) = true;
  }
  if (writes && ends_with(schema.name, '_') && !ends_with(schema.name.substr(0, schema.name.size() - 1), '_'))
    return Function::Kind::in_place;
  if (writes && schema.name.rfind("__i", 0) == 0) return Function::Kind::in_place;
  if (writes) return Function::Kind::mutable_args;
  return writes_keyword ? Function::Kind::out : Function::Kind::functional;
}

/// A list in brackets, or words separated by commas.
std::vector<std::string> words(const YamlFile& file, const Tree& tree, const std::string& field) {
  std::vector<std::string> found;
  if (tree.is_list()) {
    for (const Branch& branch : tree.branches()) found.push_back(file.text(branch.value, field).value());
    return found;
  }
  if (tree.given()) found = split(file.text(tree, field).value(), ',');
  std::erase(found, "");
  return found;
}

void read_dispatch(const YamlFile& file, const Tree& tree, Function& function) {
  if (!tree.is_map()) file.fail(tree, "'dispatch' wants pairs of dispatch keys and kernels");
  for (const Branch& pair : tree.branches()) {
    const std::string kernel = file.text(pair.value, "dispatch").value();
    for (const std::string& key : words(file, pair.key, "dispatch")) {
      for (const auto& [earlier, ignored] : function.dispatch) {
        if (earlier == key) file.fail(pair.key, fmt::format("the dispatch key '{}' stands twice", key));
      }
      function.dispatch.emplace_back(key, kernel);
    }
  }
}

std::unique_ptr<Function> read_function(const YamlFile& file, const Tree& entry) {
  file.check_keys(entry, "an entry of functions", kFields);
  auto function = std::make_unique<Function>();
  const Tree func = entry["func"];
  if (!func) file.fail(entry, "an entry of functions needs 'func', a schema");
  const Text text = file.text(func, "func");
  function->at = text.at(0);
  function->schema = parse_schema(text);
  function->kind = kind_of(function->schema);
  if (entry["variants"]) function->variants = words(file, entry["variants"], "variants");
  if (entry["autogen"]) function->autogen = words(file, entry["autogen"], "autogen");
  if (entry["tags"]) function->tags = words(file, entry["tags"], "tags");
  if (entry["dispatch"]) read_dispatch(file, entry["dispatch"], *function);
  if (const Tree delegate = entry["structured_delegate"]) {
    function->structured_delegate = file.text(delegate, "structured_delegate").value();
    function->delegate_at = delegate.at();
  }
  function->structured = entry["structured"].is_scalar();
  return function;
}

void check_delegates(const Functions& functions, Problems& problems) {
  for (const auto& function : functions.all) {
    if (function->structured_delegate.empty()) continue;
    const Function* target = functions.find(function->structured_delegate);
    if (!target) {
      const std::string nearest = did_you_mean(function->structured_delegate, functions.full_names());
      refuse(problems, function->delegate_at, fmt::format("no function is named '{}'{}", function->structured_delegate, nearest));
    } else if (!target->structured) {
      // A chain of delegates could be a circle; one step is all there is.
      refuse(problems, function->delegate_at,
             fmt::format("'{}' is not 'structured', so nothing can delegate to it", function->structured_delegate));
    }
  }
}

}  // namespace

bool Function::is_composite() const {
  if (structured || !structured_delegate.empty()) return false;
  return std::all_of(dispatch.begin(), dispatch.end(),
                     [](const auto& rule) { return rule.first.rfind("CompositeImplicit", 0) == 0; });
}

const Function* Functions::find(const std::string& full_name) const {
  const auto found = by_full_name.find(full_name);
  return found == by_full_name.end() ? nullptr : found->second;
}

const Function* Functions::generate(const Schema& schema, const Position& at) {
  auto function = std::make_unique<Function>();
  function->schema = schema;
  function->at = at;
  function->kind = kind_of(schema);
  const Function* made = function.get();
  by_full_name.emplace(made->full_name(), function.get());
  by_name[schema.name].push_back(function.get());
  generated.push_back(std::move(function));
  return made;
}

std::vector<std::string> Functions::full_names() const {
  std::vector<std::string> names;
  for (const auto& function : all) names.push_back(function->full_name());
  return names;
}

Functions read_functions(const std::string& path, const std::string& name, Problems& problems) {
  Functions functions;
  attempt(problems, [&] {
    const YamlFile file(path, name);
    if (!file.root().is_list()) file.fail(file.root(), "a file of functions is a list of entries");
    for (const Branch& branch : file.root().branches()) {
      ++functions.entries;
      attempt(problems, [&] {
        std::unique_ptr<Function> function = read_function(file, branch.value);
        const auto [earlier, added] = functions.by_full_name.emplace(function->full_name(), function.get());
        if (!added)
          throw Problem(function->at, fmt::format("'{}' stands twice; the first is at {}", function->full_name(),
                                                  earlier->second->at.to_string()));
        functions.by_name[function->schema.name].push_back(function.get());
        for (const std::string& variant : function->autogen) functions.by_autogen.emplace(variant, function.get());
        functions.all.push_back(std::move(function));
      });
    }
    check_delegates(functions, problems);
  });
  return functions;
}

bool same_arguments(const Schema& a, const Schema& b, std::string& why) {
  for (size_t i = 0; i < std::max(a.arguments.size(), b.arguments.size()); ++i) {
    if (i >= a.arguments.size() || i >= b.arguments.size()) {
      why = i < a.arguments.size() ? fmt::format("'{}' has no counterpart there", a.arguments[i].name)
                                   : fmt::format("'{}' is missing here", b.arguments[i].name);
      return false;
    }
    const Argument &left = a.arguments[i], &right = b.arguments[i];
    if (left.name == right.name && left.type == right.type) continue;
    why = fmt::format("'{} {}' there, '{} {}' here", right.type.to_string(), right.name, left.type.to_string(), left.name);
    return false;
  }
  return true;
}

}  // namespace opgen::aten
