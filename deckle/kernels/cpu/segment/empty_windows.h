#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "deckle/base/error.h"
#include "deckle/kernels/args/view.h"

/// What kernels of both devices refuse on the host, by the lengths alone, before they read a row that is not there.
namespace deckle::kernels::cpu::segment {

/// Window w of a sequence is its rows [w stride - lead, w stride - lead + size): of all windows each must have one.
inline void check_windows_have_rows(const RaggedView& ragged, const RaggedView& windows, int64_t size, int64_t stride,
                                    int64_t lead) {
  for (int64_t b = 0; b < windows.components; ++b) {
    const int64_t count = windows.offsets[b + 1] - windows.offsets[b], length = ragged.offsets[b + 1] - ragged.offsets[b];
    if (count == 0) continue;
    // The first window ends first and the last begins last: what is between begins and ends between. No product overflows.
    const bool counted = length > 0 && lead <= std::numeric_limits<int64_t>::max() / 2 - length;
    if (counted && size > lead && count - 1 <= (length - 1 + lead) / stride) continue;
    throw Error("a window has no row of its sequence of length " + std::to_string(length) + " (expected one or more)");
  }
}

/// Places are read from rows of the sequence: an empty one has none.
inline void check_places_have_rows(const RaggedView& ragged, const RaggedView& resampled) {
  for (int64_t b = 0; b < resampled.components; ++b) {
    if (ragged.offsets[b] != ragged.offsets[b + 1] || resampled.offsets[b] == resampled.offsets[b + 1]) continue;
    throw Error("sequence " + std::to_string(b) + " is empty (expected none of its rows in the result)");
  }
}

}  // namespace deckle::kernels::cpu::segment
