#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "deckle/base/error.h"

namespace deckle {

/// Names the argument that an error is about; the text goes on from there: Argument{"p"}, "is {} (expected 0 to 1)".
struct Argument {
  std::string_view name;
};

/// Throws Error(kind) with a formatted detail.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::value, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail(Argument argument, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::value, std::string(argument.name), fmt::format(text, std::forward<Args>(args)...));
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
