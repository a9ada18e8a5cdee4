#include "opgen/model/entry.h"

#include <algorithm>

namespace opgen {

bool is_dim(const Argument& argument) {
  return argument.type.base == Base::integer &&
         (argument.name.starts_with("dim") || argument.name == "start_dim" || argument.name == "end_dim");
}

bool Entry::is_view() const {
  for (const Result& result : schema.results) {
    if (result.alias && !result.alias->written) return true;
  }
  return false;
}

bool Entry::writes_argument() const {
  return std::any_of(schema.arguments.begin(), schema.arguments.end(),
                     [](const Argument& argument) { return argument.alias && argument.alias->written; });
}

std::vector<const Argument*> Entry::tensors() const {
  std::vector<const Argument*> found;
  for (const Argument& argument : schema.arguments) {
    if (argument.type.is_tensor_like()) found.push_back(&argument);
  }
  return found;
}

std::string Entry::result_name(size_t index) const {
  const std::string& name = schema.results[index].name;
  if (!name.empty() && !schema.find(name)) return name;
  return schema.results.size() == 1 ? "result" : "result" + std::to_string(index);
}

const Rule* Entry::reverse_rule(const std::string& input) const {
  for (const Rule& rule : reverse) {
    if (std::find(rule.keys.begin(), rule.keys.end(), input) != rule.keys.end()) return &rule;
  }
  return nullptr;
}

std::vector<const Entry*> Library::named(const std::string& name) const {
  std::vector<const Entry*> found;
  for (const auto& entry : entries) {
    if (entry->name() == name) found.push_back(entry.get());
  }
  return found;
}

std::vector<std::string> Library::op_names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry->name());
  return names;
}

}  // namespace opgen
