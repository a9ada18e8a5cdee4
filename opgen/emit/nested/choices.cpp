#include "opgen/emit/nested/choices.h"

namespace opgen {
namespace nested {

/// Records hold no nested tensors.
std::set<std::string> nested_arguments(const Op& op) {
  if (!op.nested.on.empty()) return {op.nested.on.begin(), op.nested.on.end()};
  for (const Argument& argument : op.schema.arguments) {
    if (argument.type.is_tensor()) return argument.path.empty() ? std::set{argument.name} : std::set<std::string>();
  }
  return {};
}

bool combines(const Op& op) { return op.body == Op::Body::pointwise && op.nested.on.empty(); }

}  // namespace nested

std::vector<std::set<std::string>> nested_choices(const Op& op) {
  std::vector<std::set<std::string>> result;
  for (const auto& names : op.nested.choices) result.emplace_back(names.begin(), names.end());
  if (!result.empty()) return result;
  if (!nested::combines(op)) return nested::nested_arguments(op).empty() ? result : std::vector{nested::nested_arguments(op)};
  std::vector<std::string> tensors;
  for (const Argument& argument : op.schema.arguments) {
    if (argument.type.is_tensor()) tensors.push_back(argument.name);
  }
  for (unsigned mask = (1u << tensors.size()) - 1; mask > 0; --mask) {
    std::set<std::string> choice;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (mask >> i & 1) choice.insert(tensors[i]);
    }
    result.push_back(choice);
  }
  return result;
}

}  // namespace opgen
