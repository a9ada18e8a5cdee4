#include "opgen/readers/entries/entry.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "opgen/text/strings.h"

namespace opgen {
namespace {

constexpr std::array<const char*, 3> kDimNames = {"the batch", "a ragged dim", "a regular dim"};

}  // namespace

void EntryReader::nested() {
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
  file_.check_keys(value, "'nested'",
                   {"values", "segment", "error", "cpp", "dense", "on", "inserts", "rows", "samples", "zeros_need"});
  std::vector<std::string> kinds;
  for (const auto& [word, kind] : kKinds) {
    if (!value[word]) continue;
    kinds.push_back(word);
    rule.kind = kind;
  }
  if (kinds.empty() && value["rows"]) {
    kinds.push_back("rows");
    rule.kind = NestedRule::Kind::rows;
  }
  if (kinds.empty()) file_.fail(value, "'nested' says nothing: give values, rows, segment, cpp or error");
  if (value["segment"]) segment(value["segment"]);
  if (entry_->has_ragged_form && value["error"] && kinds.size() == 2) {  // the op itself has no overload
    rule.kind = NestedRule::Kind::error;
    kinds.pop_back();
  }
  if (kinds.size() > 1)
    file_.fail(value[kinds[1]], fmt::format("'nested' has two rules, '{}' and '{}': keep one", kinds[0], kinds[1]));
  const bool by_hand = rule.kind == NestedRule::Kind::cpp;
  for (const char* word : {"dense", "inserts", "rows", "samples"}) {
    if (value[word] && !by_hand && word != kinds[0] && !(entry_->has_ragged_form && word == std::string("samples")))
      file_.fail(value[word], fmt::format("'{}' belongs to 'cpp'", word));
  }
  for (const char* word : {"values", "rows"}) {
    if (word == kinds[0] && !file_.boolean(value[word], word))
      file_.fail(value[word], fmt::format("'{}' is true, or left out for another rule: segment, cpp or error", word));
  }
  if (value["zeros_need"]) zeros_need(value["zeros_need"]);
  if (value["error"]) rule.error = file_.sentence(value["error"], "error");
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

void EntryReader::zeros_need(const Tree& value) {
  NestedRule& rule = entry_->nested;
  if (rule.kind != NestedRule::Kind::rows) file_.fail(value, "'zeros_need' belongs to 'rows: true' without another rule");
  rule.zeros_need = file_.text(value, "zeros_need").value();
  const Argument* const argument = entry_->schema.find(rule.zeros_need);
  if (argument == nullptr || argument->type.base != Base::floating || argument->type.optional || argument->keyword_only)
    file_.fail(value, fmt::format("no float argument before the '*' is named '{}'", rule.zeros_need));
  if (entry_->inplace || entry_->writes_argument())
    file_.fail(value,
               fmt::format("'{}' writes into its argument, which 'zeros_need' would have it read elsewhere", entry_->name()));
}

void EntryReader::segment(const Tree& value) {
  std::string& op = entry_->nested.segment;
  entry_->has_ragged_form = value.is_map() || value.scalar() == "true";
  op = entry_->has_ragged_form ? "segment_" + entry_->name() : file_.text(value, "segment").value();
  if (!entry_->has_ragged_form) return;
  const bool kernel = entry_->body == Entry::Body::kernel;
  if (value.is_map() != kernel || (!kernel && entry_->body != Entry::Body::composite))
    file_.fail(value,
               "the ragged form of a kernel has a kernel, 'segment: {cpu: family/file}', that of a formula 'segment: true'");
  if (kernel) entry_->ragged_kernels = kernels(value, op);
}

void EntryReader::dims_by_hand(const Tree& value) {
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
    rule.text = file_.sentence(text, kDimKinds[kind]);
  }
}

std::vector<std::string> EntryReader::nested_arguments(const Tree& names) {
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

void EntryReader::samples() {
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

}  // namespace opgen
