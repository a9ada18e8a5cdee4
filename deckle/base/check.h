#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "deckle/base/error.h"

namespace deckle {

/// Throws Error(kind) with a formatted message.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::value, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws unless `condition` holds; the message is formatted only then.
template <typename... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) [[unlikely]]
    throw Error(ErrorKind::value, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace deckle
