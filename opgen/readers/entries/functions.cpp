#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "opgen/readers/entries/by_hand.h"
#include "opgen/readers/entries/entry.h"
#include "opgen/readers/entries/load.h"
#include "opgen/schema/identifiers.h"

namespace opgen {
namespace {

/// A pattern of functions.yaml, without its positions: errors belong to the expression in which it is used.
ExprPtr pattern_of(const Text& text) {
  const std::function<ExprPtr(const ExprPtr&)> without_places = [&](const ExprPtr& node) -> ExprPtr {
    std::vector<ExprPtr> args;
    for (const ExprPtr& argument : node->args) args.push_back(without_places(argument));
    return std::make_shared<Expr>(node->kind, node->text, std::move(args), node->keys, Position{});
  };
  return without_places(inline_lets(parse_formula(text)));
}

ScalarFunction load_scalar(const YamlFile& file, const Tree& node) {
  file.check_keys(node, "a scalar function", {"func", "derivative", "vanishes", "integer", "boolean", "means"});
  if (!node["func"]) file.fail(node, "a scalar function begins with 'func: name(x)'");
  ScalarFunction function;
  const ExprPtr call = inline_lets(parse_formula(file.text(node["func"], "func")));
  if (!call->is(ExprKind::call)) file.fail(node["func"], "a scalar function is declared as name(x) or name(x, y)");
  function.name = call->text;
  if (const std::string why = why_not_a_name(function.name); !why.empty()) file.fail(node["func"], why);
  for (const ExprPtr& parameter : call->args) {
    if (!parameter->is(ExprKind::name)) file.fail(node["func"], "a scalar function is declared as name(x) or name(x, y)");
    if (std::count(function.parameters.begin(), function.parameters.end(), parameter->text))
      file.fail(node["func"], fmt::format("two parameters are named '{}'", parameter->text));
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
      if (header.find_first_of("\"\\\n\r") != std::string::npos)
        file.fail(given[key], fmt::format("'{}' is no header as '#include' names it: acme/math.h", header));
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

/// Whether the function `name` is reached by replacing calls in `expr` by what they mean.
bool means(const ExprPtr& expr, const std::string& name, const Functions& functions, std::set<std::string>& seen) {
  if (expr->is(ExprKind::call)) {
    if (expr->text == name) return true;
    const auto called = functions.find(expr->text);
    if (called != functions.end() && called->second.means && seen.insert(expr->text).second &&
        means(called->second.means, name, functions, seen))
      return true;
  }
  return std::any_of(expr->args.begin(), expr->args.end(),
                     [&](const ExprPtr& argument) { return means(argument, name, functions, seen); });
}

}  // namespace

void load_functions(const std::string& path, const std::string& name, Library& library, Problems& problems, const Home& home) {
  attempt(problems, [&] {
    const YamlFile file(path, name);
    if (file.root().is_null()) return;
    file.check_keys(file.root(), name, {"scalar", "helpers", "words", "samples", "headers", "by_hand"});
    load_headers(file, home, library);
    const auto each = [&](const char* section, const auto& load) {
      if (!file.root()[section]) return;
      if (!file.root()[section].is_list()) file.fail(file.root()[section], fmt::format("'{}' is a list", section));
      for (const Branch& item : file.root()[section].branches()) attempt(problems, [&] { load(item.value); });
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
    each("scalar", [&](const Tree& node) {
      const std::string& func = node.is_map() ? node["func"].scalar() : "";
      const auto function = library.functions.find(func.substr(0, func.find('(')));
      std::set<std::string> seen;
      if (function != library.functions.end() && function->second.means &&
          means(function->second.means, function->first, library.functions, seen))
        file.fail(node["means"], fmt::format("'{}' would mean itself: say it in functions that do not call it", function->first));
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
    each("words", [&](const Tree& node) {
      file.check_keys(node, "a word", {"word", "dims", "ragged"});
      const auto read = [&](const char* key) { return node[key] ? pattern_of(file.text(node[key], key)) : nullptr; };
      library.words.push_back({read("word"), read("dims"), read("ragged")});
      if (const Word& word = library.words.back(); !word.head || !word.head->is(ExprKind::call) || !word.ragged)
        file.fail(node,
                  "a word is {word: name(x, dim), dims: FORMULA, ragged: FORMULA}, and without 'dims' as it stands over them");
    });
    each("by_hand", [&](const Tree& node) { load_by_hand(file, node, library); });
    if (file.root()["samples"]) {
      if (!file.root()["samples"].is_map()) file.fail(file.root()["samples"], "'samples' is a map of named sets");
      for (const Branch& pair : file.root()["samples"].branches()) {
        if (pair.value.is_scalar()) file.fail(pair.value, "a set of samples is a list");
        check_samples_list(file, pair.value);
        if (!library.sample_sets.emplace(pair.key.scalar(), pair.value).second)
          file.fail(pair.key, fmt::format("the sample set '{}' stands twice", pair.key.scalar()));
      }
    }
  });
}

}  // namespace opgen
