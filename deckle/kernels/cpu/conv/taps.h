#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::conv {

/// Which rows of its sequence a row of the result reads: row o reads row o step + offset at each tap, or zeros if there is none.
struct Taps {
  int64_t step = 1;
  std::vector<int64_t> offsets;  // never falling, or never rising

  static Taps forward(int64_t size, int64_t stride, int64_t dilation, int64_t lead) {
    Taps taps{stride, {}};
    for (int64_t t = 0; t < size; ++t) taps.offsets.push_back(t * dilation - lead);
    return taps;
  }

  int64_t count() const { return static_cast<int64_t>(offsets.size()); }
};

/// The rows of a source [rows, `stride`] that rows of the result read, sequence by sequence. Rows of the result are counted
/// through the sequences: `to` [sequences + 1] are their offsets.
struct Source {
  const char* data;
  DType dtype;
  int64_t stride;  // of a row, in elements
  const int64_t* from;
  std::span<const int64_t> to;

  /// The sequence of row `row` of the result; `after`: a sequence that does not come behind it.
  int64_t sequence(int64_t row, int64_t after = 0) const {
    return std::upper_bound(to.begin() + after, to.end(), row) - to.begin() - 1;
  }
};

/// Visits the rows [row, row + rows) of the result: body(i, b, o) for row + i, row o of sequence b.
template <typename Body>
void for_sequence_rows(const Source& source, int64_t row, int64_t rows, Body&& body) {
  int64_t b = source.sequence(row);
  for (int64_t i = 0; i < rows; ++i) {
    while (source.to[static_cast<size_t>(b) + 1] <= row + i) ++b;
    body(i, b, row + i - source.to[static_cast<size_t>(b)]);
  }
}

}  // namespace deckle::kernels::cpu::conv
