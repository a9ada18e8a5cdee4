#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace deckle {

/// What a message names by to_string: the text is made where there is a message, not at every call that checks.
template <typename T>
struct Shown {
  const T& value;
};
template <typename T>
Shown(const T&) -> Shown<T>;

}  // namespace deckle

template <typename T>
struct fmt::formatter<deckle::Shown<T>> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  format_context::iterator format(const deckle::Shown<T>& shown, format_context& context) const {
    const std::string text = to_string(shown.value);
    return std::copy(text.begin(), text.end(), context.out());
  }
};
