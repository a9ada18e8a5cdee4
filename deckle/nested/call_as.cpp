#include "deckle/nested/call_as.h"

#include <new>
#include <stdexcept>
#include <vector>

#include "deckle/base/error.h"
#include "deckle/nested/support.h"

namespace deckle::nested {
namespace {

[[noreturn]] void rethrow_with(Error& error, std::string_view op, NamedOperands operands) {
  std::vector<Operand> shapes;
  for (const auto& [name, operand] : operands) {
    if (!operand->defined()) continue;
    const Tensor& values = operand->values();
    shapes.push_back(
        {std::string(name), shape_string(*operand), to_string(values.sizes()), {{values.impl(), values.storage().get()}}});
  }
  error.set_op(op, std::move(shapes));
  throw error;
}

}  // namespace

void rethrow(const std::exception& error, std::string_view op, NamedOperands operands) {
  if (const auto* const known = dynamic_cast<const Error*>(&error)) {
    Error explained = *known;
    rethrow_with(explained, op, operands);
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr && dynamic_cast<const std::length_error*>(&error) == nullptr) throw;
  Error explained(ErrorKind::out_of_memory, "the host memory does not hold a list of all rows or groups");
  rethrow_with(explained, op, operands);
}

}  // namespace deckle::nested
