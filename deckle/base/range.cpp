#include "deckle/base/range.h"

#include <fmt/format.h>

fmt::format_context::iterator fmt::formatter<deckle::Range>::format(deckle::Range range, format_context& context) const {
  if (range.last < range.first) return fmt::format_to(context.out(), "none");
  return fmt::format_to(context.out(), "{}..{}", range.first, range.last);
}
