#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

namespace deckle::cli {

/// Prints at once. A failure throws nothing, since a run has something to save first: output_lost() tells of it.
void put(std::FILE* stream, std::string_view text);

template <typename... T>
void say(fmt::format_string<T...> format, T&&... values) {
  put(stdout, fmt::format(format, std::forward<T>(values)...));
}

/// Whether something that was printed did not arrive: a full disk, a closed pipe.
bool output_lost();

/// An Error(io) with the reason if output was lost.
void check_output();

}  // namespace deckle::cli
