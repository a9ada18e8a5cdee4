#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

namespace deckle::cli {

/// Prints and flushes. A failure does not throw, since a run must save first: output_lost() reports it.
void put(std::FILE* stream, std::string_view text);

template <typename... T>
void say(fmt::format_string<T...> format, T&&... values) {
  put(stdout, fmt::format(format, std::forward<T>(values)...));
}

/// Whether a write to stdout failed: a full disk, a closed pipe.
bool output_lost();

/// An Error(io) with the reason if output was lost.
void check_output();

}  // namespace deckle::cli
