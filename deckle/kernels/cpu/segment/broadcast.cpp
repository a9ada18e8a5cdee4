// Row b of the input for every row of component b.                                  rows: [B, inner], repeated: [rows, inner]
//
// Reads 4 / length, writes 4 bytes per element: a copy of whole rows, in the order in which they are written.

#include <algorithm>
#include <cstring>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu {

void segment_broadcast(const Context&, const View& rows, const RaggedView& ragged, const View& repeated) {
  constexpr int64_t kGrain = 65536;  // bytes per parallel range
  if (repeated.numel() == 0) return;
  const int64_t bytes = repeated.numel() / ragged.rows() * item_size(repeated.dtype);
  const char* const from = rows.ptr<char>();
  char* const to = repeated.ptr<char>();
  parallel_for(ragged.rows(), std::max<int64_t>(1, kGrain / bytes), [&](int64_t begin, int64_t end) {
    int64_t b = std::upper_bound(ragged.offsets, ragged.offsets + ragged.components + 1, begin) - ragged.offsets - 1;
    for (int64_t i = begin; i < end; ++i) {
      while (ragged.offsets[b + 1] <= i) ++b;
      std::memcpy(to + ragged.row(i) * bytes, from + b * bytes, static_cast<size_t>(bytes));
    }
  });
}

}  // namespace deckle::kernels::cpu
