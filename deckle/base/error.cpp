#include "deckle/base/error.h"

#include <fmt/format.h>

#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "deckle/base/operand_names.h"

namespace deckle {

namespace {

/// An error may be shared between threads, which may ask for its message at once.
std::mutex& message_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

Error::Error(ErrorKind kind, std::string argument, std::string detail)
    : kind_(kind), argument_(std::move(argument)), detail_(std::move(detail)) {}

// The message is put together anew: another thread may be at that of `other`.
Error::Error(const Error& other)
    : std::exception(other),
      kind_(other.kind_),
      op_(other.op_),
      argument_(other.argument_),
      detail_(other.detail_),
      shapes_(other.shapes_),
      quotes_(other.quotes_) {}

Error& Error::operator=(const Error& other) {
  kind_ = other.kind_;
  op_ = other.op_;
  argument_ = other.argument_;
  detail_ = other.detail_;
  shapes_ = other.shapes_;
  quotes_ = other.quotes_;
  message_.clear();
  return *this;
}

void Error::set_op(std::string_view op, std::vector<Operand> shapes) {
  if (!quotes_ && !op_.empty() && !shapes_.empty()) {
    const OperandNames names(shapes_, shapes);
    if (names.all_known(argument_, detail_)) {
      argument_ = names.rename(argument_);
      detail_ = names.rename(detail_);
    } else if (op_ != op) {
      quotes_ = true;
      detail_ = fmt::format("in {}: {}{}{}", op_, argument_, argument_.empty() ? "" : " ", detail_);
      argument_.clear();
    }
  }
  op_ = op;
  shapes_ = std::move(shapes);
  message_.clear();
}

const char* Error::what() const noexcept {
  try {
    return message().c_str();
  } catch (...) {
    return detail_.c_str();  // no memory for more
  }
}

const std::string& Error::message() const {
  const std::lock_guard lock(message_mutex());
  if (!message_.empty()) return message_;
  const auto gives = [&](const std::string& shape) { return detail_.find(shape) != std::string::npos; };
  std::string message;
  if (!op_.empty()) message += op_ + ": ";
  if (!argument_.empty()) message += argument_ + " ";
  message += detail_;
  const char* separator = "; ";
  for (const Operand& operand : shapes_) {
    if (operand.values.empty() || gives(operand.shape)) continue;
    message += separator + operand.name + " is " + operand.shape;
    if (gives(operand.values)) message += " with values " + operand.values;
    separator = ", ";
  }
  message_ = std::move(message);
  return message_;
}

void rethrow_from(std::string_view op) { rethrow_from(op, std::vector<Operand>()); }

namespace {

[[noreturn]] void fail_without_memory(std::string_view op, std::vector<Operand> shapes) {
  Error error(ErrorKind::out_of_memory, "the host has no memory left for the call");
  error.set_op(op, std::move(shapes));
  throw error;
}

}  // namespace

void rethrow_from(std::string_view op, std::vector<Operand> shapes) {
  try {
    throw;
  } catch (Error& error) {
    error.set_op(op, std::move(shapes));
    throw;
  } catch (const std::bad_alloc&) {
    fail_without_memory(op, std::move(shapes));
  } catch (const std::length_error&) {  // of a list that no memory could hold
    fail_without_memory(op, std::move(shapes));
  }
}

}  // namespace deckle
