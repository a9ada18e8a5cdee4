#include "deckle/base/error.h"

#include <new>
#include <utility>

namespace deckle {

Error::Error(ErrorKind kind, std::string argument, std::string detail)
    : kind_(kind), argument_(std::move(argument)), detail_(std::move(detail)) {
  format();
}

void Error::set_op(std::string_view op) {
  op_ = op;
  format();
}

void Error::set_shapes(std::vector<Operand> shapes) {
  shapes_ = std::move(shapes);
  format();
}

void Error::format() {
  const auto gives = [&](const std::string& shape) { return detail_.find(shape) != std::string::npos; };
  message_.clear();
  if (!op_.empty()) message_ += op_ + ": ";
  if (!argument_.empty()) message_ += argument_ + " ";
  message_ += detail_;
  const char* separator = "; ";
  for (const Operand& operand : shapes_) {
    if (gives(operand.shape)) continue;
    message_ += separator + operand.name + " is " + operand.shape;
    if (!operand.values.empty() && gives(operand.values)) message_ += " with values " + operand.values;
    separator = ", ";
  }
}

void rethrow_from(std::string_view op) {
  try {
    throw;
  } catch (Error& error) {
    error.set_op(op);
    throw;
  } catch (const std::bad_alloc&) {
    Error error(ErrorKind::out_of_memory, "the host has no memory left for the call");
    error.set_op(op);
    throw error;
  }
}

}  // namespace deckle
