#include "deckle/nested/named.h"

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string>

#include "deckle/base/error.h"
#include "deckle/nested/support.h"

namespace deckle::nested {

void rethrow(const std::exception& error, std::string_view op, NamedOperands operands) {
  ErrorKind kind = ErrorKind::out_of_memory;
  std::string message = "the host memory does not hold a list of all rows or groups";
  if (const auto* const known = dynamic_cast<const Error*>(&error)) {
    kind = known->kind();
    message = known->message();
  } else if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr &&
             dynamic_cast<const std::length_error*>(&error) == nullptr) {
    throw;
  }
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
  Error explained(kind, message + shapes);
  explained.add_prefix(op);
  throw explained;
}

}  // namespace deckle::nested
