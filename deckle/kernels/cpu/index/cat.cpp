// result = the tensors one after another along dim.                     Reads and writes every byte once.

#include <algorithm>
#include <cstring>
#include <span>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void cat(const Context&, std::span<const View> tensors, int64_t dim, std::span<const int64_t>, const View& result) {
  constexpr int64_t kPiece = 1 << 17, kRange = 1 << 18;  // bytes of the largest memcpy, and moved by one thread at a time
  const RowShape whole(result, dim);
  const int64_t item = item_size(result.dtype), whole_bytes = whole.rows * whole.inner * item;
  if (result.numel() == 0) return;
  // Pieces of all tensors, one tensor after another, are shared out together.
  struct Part {
    const char* from;
    int64_t bytes, pieces, start, first;  // of each row of whole_bytes; where it starts there; the number of its first piece
  };
  Scratch scratch;
  Part* const parts = scratch.take<Part>(static_cast<int64_t>(tensors.size()));
  int64_t count = 0, start = 0, first = 0;
  for (const View& tensor : tensors) {
    const RowShape shape(tensor, dim);
    const int64_t bytes = shape.rows * shape.inner * item;
    if (tensor.numel() == 0) continue;
    const int64_t pieces = (bytes + kPiece - 1) / kPiece;
    parts[count++] = {static_cast<const char*>(tensor.data), bytes, pieces, start, first};
    start += bytes;
    first += shape.outer * pieces;
  }
  auto* const to = static_cast<char*>(result.data);
  const int64_t mean = std::max<int64_t>(1, result.numel() * item / first);  // bytes of a piece
  parallel_for(first, std::max<int64_t>(1, kRange / mean), [&](int64_t begin, int64_t end) {
    const Part* part = std::upper_bound(parts, parts + count, begin, [](int64_t i, const Part& p) { return i < p.first; }) - 1;
    for (int64_t i = begin; i < end; ++i) {
      while (part + 1 < parts + count && i >= part[1].first) ++part;
      const int64_t outer = (i - part->first) / part->pieces, offset = (i - part->first) % part->pieces * kPiece;
      const auto length = static_cast<size_t>(std::min(kPiece, part->bytes - offset));
      std::memcpy(to + outer * whole_bytes + part->start + offset, part->from + outer * part->bytes + offset, length);
    }
  });
}

}  // namespace deckle::kernels::cpu
