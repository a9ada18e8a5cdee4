// result[i, :] = row index[i] of the tensors, counted one after another. Reads and writes every byte of the result once.

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void concatenate_rows(const Context&, std::span<const View> tensors, const View& index, std::span<const int64_t> lengths,
                      const View& result) {
  std::vector<int64_t> starts = {0};
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].sizes[0] != lengths[i])
      fail("lengths[{}] is {}, tensor {} has {} rows (expected the same)", i, lengths[i], i, tensors[i].sizes[0]);
    starts.push_back(starts.back() + lengths[i]);
  }
  const int64_t row_bytes = RowShape(result, 0).inner * item_size(result.dtype);
  auto* const to = static_cast<char*>(result.data);
  visit_index(index, [&](const auto* indices) {
    parallel_for(index.numel(), grain_of(row_bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto row = static_cast<int64_t>(indices[i]);
        check_index(row, starts.back());
        const auto tensor = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), row) - starts.begin()) - 1;
        const char* const from = static_cast<const char*>(tensors[tensor].data) + (row - starts[tensor]) * row_bytes;
        if (row_bytes > 0) std::memcpy(to + i * row_bytes, from, static_cast<size_t>(row_bytes));
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
