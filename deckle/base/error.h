#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace deckle {

/// What went wrong; Python maps each kind to its own exception type.
enum class ErrorKind { value, not_implemented, out_of_memory, io, runtime };

/// The one exception type of the library: a kind, and a sentence that says what was given and what would be accepted.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  explicit Error(std::string message) : Error(ErrorKind::value, std::move(message)) {}

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

  /// Puts "name: " before the message; the innermost op wins, later calls change nothing.
  void add_prefix(std::string_view name) {
    if (prefixed_) return;
    prefixed_ = true;
    message_ = std::string(name) + ": " + message_;
  }

 private:
  ErrorKind kind_;
  std::string message_;
  bool prefixed_ = false;
};

}  // namespace deckle
