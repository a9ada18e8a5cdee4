#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace deckle {

/// What went wrong, for programs that go on after errors of one kind alone; what people read is the message.
enum class ErrorKind { value, not_implemented, out_of_memory, io, runtime };

/// Which tensor it was, and whose elements: only to be compared, since it may be gone.
struct TensorId {
  const void* tensor;
  const void* storage;
};

/// A tensor, or list of tensors, that the failed call was given.
struct Operand {
  std::string name;
  std::string shape;
  std::string values = {};  // of a nested tensor, the shape of its packed values: what is found wrong on them speaks of it
  std::vector<TensorId> tensors = {};
  bool list = false;
};

/// The one exception type of the library. The message is one sentence, put together from the fields in one place:
/// `op: argument detail; name is shape, name is shape`, the shapes those of nested operands that the detail does not give.
/// `detail` says what was given and ends with what would be accepted: `(expected ...)`.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string detail) : Error(kind, {}, std::move(detail)) {}
  Error(ErrorKind kind, std::string argument, std::string detail);
  explicit Error(std::string detail) : Error(ErrorKind::value, std::move(detail)) {}
  Error(const Error& other);
  Error& operator=(const Error& other);

  ErrorKind kind() const noexcept { return kind_; }
  /// The public function that was called, or the file that was read; empty outside of both.
  const std::string& op() const noexcept { return op_; }
  /// The argument of `op` that the error is about; empty if it is about several.
  const std::string& argument() const noexcept { return argument_; }
  const std::string& detail() const noexcept { return detail_; }
  /// Of the tensors that `op` was given, in its order.
  const std::vector<Operand>& shapes() const noexcept { return shapes_; }

  /// The sentence, put together when it is first asked for.
  const std::string& message() const;
  const char* what() const noexcept override;

  /// Every public function that the error passes on its way up calls this, so the outermost one is left: what the user called,
  /// and with what. What the text says of operands of the function before it says of those of `op` with the same elements; where
  /// there are none, it says in which function (base/operand_names.h).
  void set_op(std::string_view op, std::vector<Operand> shapes = {});

 private:
  ErrorKind kind_;
  std::string op_, argument_, detail_;
  std::vector<Operand> shapes_;
  bool quotes_ = false;          // the detail speaks of a call within `op`: "in mm: self is float32"
  mutable std::string message_;  // empty: not asked for since the fields changed
};

/// The catch clause of public functions: rethrows the Error in flight as one of `op`. Generated ones pass their tensors too
/// (core/rethrow.h).
[[noreturn, gnu::cold]] void rethrow_from(std::string_view op);
[[noreturn, gnu::cold]] void rethrow_from(std::string_view op, std::vector<Operand> shapes);

/// body(), whose errors are told as those of `op`: for public functions that no entry declares.
template <typename Body>
decltype(auto) call_as(std::string_view op, Body&& body) try {
  return body();
} catch (...) {
  rethrow_from(op);
}

}  // namespace deckle
