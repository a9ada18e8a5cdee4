#pragma once

#include <span>
#include <string_view>

#include "deckle/core/kept.h"
#include "deckle/nested/rows.h"

namespace deckle::nested {

/// What `make` gives of `shape` and the numbers, kept with it (core/kept.h); `shape` itself is not in it.
template <typename Make>
Rows kept_rows(const RaggedShape& shape, std::string_view what, IntSpan numbers, const Make& make,
               std::span<const Ragged> others = {}) {
  const auto made = [&] {
    Rows rows = make();
    if (rows.shape.defined()) note_made_shape(shape, *rows.shape);
    return rows;
  };
  return kept_value(shape, what, numbers, made, others);
}

}  // namespace deckle::nested
