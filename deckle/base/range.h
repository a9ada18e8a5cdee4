#pragma once

#include <fmt/core.h>

#include <cstdint>

namespace deckle {

/// What would be accepted, in a message: `0..4`, or `none` where nothing would be.
struct Range {
  int64_t first, last;
};

}  // namespace deckle

template <>
struct fmt::formatter<deckle::Range> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  format_context::iterator format(deckle::Range range, format_context& context) const;
};
