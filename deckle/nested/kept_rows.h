#pragma once

#include <span>
#include <string_view>

#include "deckle/core/kept.h"
#include "deckle/nested/rows.h"

namespace deckle::nested {

/// What `make` gives of `ragged` and the numbers, kept with it (core/kept.h); not with `ragged` itself as the shape.
template <typename Make>
Rows kept_rows(const Ragged& ragged, std::string_view what, IntSpan numbers, const Make& make,
               std::span<const Ragged> others = {}) {
  const auto made = [&] {
    Rows rows = make();
    if (rows.shape.defined()) note_made_shape(ragged, rows.shape);
    return rows;
  };
  return kept_value(ragged, what, numbers, made, others);
}

/// The same of a shape alone, whose row map, and copy on a device, is then one, too.
template <typename Make>
Ragged kept_shape(const Ragged& ragged, std::string_view what, IntSpan numbers, const Make& make,
                  std::span<const Ragged> others = {}) {
  return kept_rows(
             ragged, what, numbers,
             [&] {
               return Rows{Tensor(), make()};
             },
             others)
      .shape;
}

}  // namespace deckle::nested
