#pragma once

#include <fmt/core.h>

#include "deckle/base/error.h"

namespace deckle {

namespace detail {
/// Formats where all callers meet: fmt/format.h and a formatted throw in every file were a quarter of their compile time.
[[noreturn]] void fail(ErrorKind kind, std::string_view argument, fmt::string_view text, fmt::format_args values);
}  // namespace detail

/// Names the argument that an error is about; the text goes on from there: Argument{"p"}, "is {} (expected 0 to 1)".
struct Argument {
  std::string_view name;
};

/// Throws Error(kind) with a formatted detail.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  detail::fail(kind, {}, text, fmt::make_format_args(args...));
}

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  detail::fail(ErrorKind::value, {}, text, fmt::make_format_args(args...));
}

template <typename... Args>
[[noreturn]] void fail(Argument argument, fmt::format_string<Args...> text, Args&&... args) {
  detail::fail(ErrorKind::value, argument.name, text, fmt::make_format_args(args...));
}

/// Throws unless `condition` holds; the detail is formatted only then.
template <typename... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) [[unlikely]]
    fail(text, std::forward<Args>(args)...);
}

template <typename... Args>
void check(bool condition, Argument argument, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) [[unlikely]]
    fail(argument, text, std::forward<Args>(args)...);
}

}  // namespace deckle
