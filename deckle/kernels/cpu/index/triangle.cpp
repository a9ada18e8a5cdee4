// tril and triu: the elements on one side of a diagonal of the last two dims; 0 elsewhere.
//
// self, result: [..., rows, columns]. Reads the elements kept once and writes each of the result once; a row is a copy and zeros.

#include <algorithm>
#include <cstring>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

void keep_triangle(const View& self, int64_t diagonal, bool lower, const View& result) {
  if (self.numel() == 0) return;
  const int64_t rows = self.sizes[self.ndim - 2], columns = self.sizes[self.ndim - 1], item = item_size(self.dtype);
  const auto* const from = static_cast<const char*>(self.data);
  auto* const to = static_cast<char*>(result.data);
  const auto bytes = [item](int64_t elements) { return static_cast<size_t>(elements * item); };
  parallel_for(self.numel() / columns, grain_of_moves(columns * item), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      // Columns [0, first) are on one side of the diagonal, the others on the other.
      const int64_t middle = std::clamp(diagonal, -rows, columns) + row % rows;
      const int64_t first = std::clamp<int64_t>(lower ? middle + 1 : middle, 0, columns), at = row * columns;
      const int64_t kept = lower ? at : at + first, dropped = lower ? at + first : at, count = lower ? first : columns - first;
      std::memcpy(to + kept * item, from + kept * item, bytes(count));
      std::memset(to + dropped * item, 0, bytes(columns - count));
    }
  });
}

}  // namespace

void tril(const Context&, const View& self, int64_t diagonal, const View& result) { keep_triangle(self, diagonal, true, result); }

void triu(const Context&, const View& self, int64_t diagonal, const View& result) {
  keep_triangle(self, diagonal, false, result);
}

}  // namespace deckle::kernels::cpu
