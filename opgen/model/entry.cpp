#include "opgen/model/entry.h"

#include <algorithm>

namespace opgen {

const WrittenRule* Entry::reverse_rule(const std::string& input) const {
  for (const WrittenRule& rule : reverse) {
    if (std::find(rule.keys.begin(), rule.keys.end(), input) != rule.keys.end()) return &rule;
  }
  return nullptr;
}

std::vector<const Entry*> Library::overloads_of(const std::string& name) const {
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
