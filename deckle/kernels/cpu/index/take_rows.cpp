// result[outer, i, :] = source[outer, index[i], :].                 Reads and writes every byte of the result once.

#include "deckle/kernels/cpu/index/take_rows.h"

#include <cstring>

#include "deckle/base/parallel.h"

namespace deckle::kernels::cpu::indexing {

void take_rows(const View& source, const RowShape& shape, const View& index, const View& result) {
  const int64_t taken = index.numel();
  const int64_t row_bytes = shape.inner * item_size(source.dtype);
  const auto* from = static_cast<const char*>(source.data);
  auto* to = static_cast<char*>(result.data);
  visit_index(index, [&](const auto* indices) {
    parallel_for(shape.outer * taken, grain_of(row_bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto row = static_cast<int64_t>(indices[i % taken]);
        check_index(row, shape.rows);
        if (row_bytes > 0)
          std::memcpy(to + i * row_bytes, from + (i / taken * shape.rows + row) * row_bytes, static_cast<size_t>(row_bytes));
      }
    });
  });
}

}  // namespace deckle::kernels::cpu::indexing
