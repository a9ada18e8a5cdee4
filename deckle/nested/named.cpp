#include "deckle/nested/named.h"

#include <fmt/format.h>

#include <string>

#include "deckle/nested/support.h"

namespace deckle::nested {

void rethrow(const Error& error, std::string_view op, NamedOperands operands) {
  std::string message = error.message();
  const std::string prefix = fmt::format("{}: ", op);
  if (message.starts_with(prefix)) message.erase(0, prefix.size());
  std::string shapes;
  for (const auto& [name, operand] : operands) {
    const std::string shape = shape_string(*operand);
    if (!operand->defined() || message.find(shape) != std::string::npos) continue;
    shapes += fmt::format("{} {} is {}", shapes.empty() ? ";" : ",", name, shape);
    const std::string packed = to_string(operand->values().sizes());
    if (message.find(packed) != std::string::npos) shapes += fmt::format(" with values {}", packed);
  }
  Error explained(error.kind(), message + shapes);
  explained.add_prefix(op);
  throw explained;
}

}  // namespace deckle::nested
