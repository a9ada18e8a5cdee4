// result = the tensors one after another along dim.                     Reads and writes every byte once.

#include <algorithm>
#include <cstring>
#include <span>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void cat(const Context&, std::span<const View> tensors, int64_t dim, std::span<const int64_t>, const View& result) {
  constexpr int64_t kPiece = 1 << 17;  // largest memcpy, in bytes, so that one long tensor is split across threads too
  const RowShape whole(result, dim);
  const int64_t item = item_size(result.dtype);
  const int64_t whole_bytes = whole.rows * whole.inner * item;
  int64_t start = 0;
  for (const View& tensor : tensors) {
    const RowShape shape(tensor, dim);
    const int64_t bytes = shape.rows * shape.inner * item;
    if (bytes == 0) continue;
    const int64_t pieces = (bytes + kPiece - 1) / kPiece;
    const auto* from = static_cast<const char*>(tensor.data);
    auto* to = static_cast<char*>(result.data) + start;
    parallel_for(shape.outer * pieces, grain_of(std::min(bytes, kPiece)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t outer = i / pieces, offset = i % pieces * kPiece;
        const auto length = static_cast<size_t>(std::min(kPiece, bytes - offset));
        std::memcpy(to + outer * whole_bytes + offset, from + outer * bytes + offset, length);
      }
    });
    start += bytes;
  }
}

}  // namespace deckle::kernels::cpu
