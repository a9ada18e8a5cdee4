#pragma once

#include <cstdint>

#include "deckle/base/check.h"

namespace deckle {

/// Element `position` of a list that a formula reads; throws where there is none.
template <typename List>
auto element(const List& list, int64_t position) {
  check(position >= 0 && position < static_cast<int64_t>(list.size()),
        "a formula reads element {} of a list of {} (expected 0 or more, and less than {})", position, list.size(), list.size());
  return list[static_cast<size_t>(position)];
}

}  // namespace deckle
