#include "opgen/ir/declaration.h"

#include <algorithm>

namespace opgen {

bool is_dim(const Argument& argument) {
  const std::string& name = argument.name;
  if (argument.type.base != Base::integer) return false;
  if (name == "dims" || name == "start_dim" || name == "end_dim") return true;
  return name.starts_with("dim") && name.find_first_not_of("0123456789", 3) == std::string::npos;
}

bool Declaration::is_view() const {
  for (const Result& result : schema.results) {
    if (result.alias && !result.alias->written) return true;
  }
  return false;
}

bool Declaration::takes_rows() const { return body == Body::pointwise && tensors().size() > 1; }

bool Declaration::writes_argument() const {
  return std::any_of(schema.arguments.begin(), schema.arguments.end(),
                     [](const Argument& argument) { return argument.alias && argument.alias->written; });
}

std::vector<const Argument*> Declaration::tensors() const {
  std::vector<const Argument*> found;
  for (const Argument& argument : schema.arguments) {
    if (argument.type.is_tensor_like()) found.push_back(&argument);
  }
  return found;
}

std::vector<std::string> Declaration::argument_names() const {
  std::vector<std::string> names;
  for (const Parameter& parameter : schema.parameters()) names.push_back(parameter.name);
  return names;
}

size_t Declaration::positional() const {
  size_t count = 0;
  while (count < schema.arguments.size() && !schema.arguments[count].keyword_only) ++count;
  return count;
}

size_t Declaration::index_of(const std::string& argument) const {
  size_t index = 0;
  while (schema.arguments[index].name != argument) ++index;
  return index;
}

bool Declaration::takes(Base base) const {
  return std::any_of(schema.arguments.begin(), schema.arguments.end(),
                     [&](const Argument& argument) { return argument.type.is(base); });
}

}  // namespace opgen
