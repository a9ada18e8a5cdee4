#include "opgen/readers/entries/by_hand.h"

#include <fmt/format.h>

namespace opgen {
namespace {

WrittenFunction load_function(const YamlFile& file, const Tree& node) {
  file.check_keys(node, "a function written by hand", {"func", "doc", "calls"});
  for (const char* field : {"func", "doc", "calls"}) {
    if (!node[field]) file.fail(node, fmt::format("a function written by hand has no '{}'", field));
  }
  WrittenFunction written;
  FunctionByHand& function = written.function;
  function.signature = file.text(node["func"], "func").value();
  const size_t open = function.signature.find('(');
  if (open == std::string::npos) file.fail(node["func"], "a function is declared as name(arguments) -> result");
  function.name = function.signature.substr(0, open);
  if (const size_t colons = function.name.rfind("::"); colons != std::string::npos) function.name.erase(0, colons + 2);
  function.doc = file.text(node["doc"], "doc").value();
  function.at = node["func"].at();
  const std::string word = node["calls"].is_scalar() ? node["calls"].scalar() : "";
  if (word == "values")
    function.kind = FunctionByHand::Kind::hands_on_values;
  else if (word == "function")
    function.kind = FunctionByHand::Kind::transforms_function;
  else if (!node["calls"].is_list())
    file.fail(node["calls"], "'calls' is a list of ops, [] where none is differentiable, 'values' or 'function'");
  for (const auto& [ignored, call] : node["calls"].branches()) written.calls.push_back(file.text(call, "calls"));
  return written;
}

}  // namespace

void load_by_hand(const YamlFile& file, const Tree& node, Library& library) {
  file.check_keys(node, "functions written by hand", {"because", "header", "functions"});
  for (const char* field : {"because", "header", "functions"}) {
    if (!node[field]) file.fail(node, fmt::format("functions written by hand have no '{}'", field));
  }
  if (!node["functions"].is_list()) file.fail(node["functions"], "'functions' is a list");
  for (const auto& [ignored, item] : node["functions"].branches()) {
    WrittenFunction written = load_function(file, item);
    written.function.because = file.text(node["because"], "because").value();
    written.function.header = file.text(node["header"], "header").value();
    library.by_hand.push_back(std::move(written));
  }
}

}  // namespace opgen
