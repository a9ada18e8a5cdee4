// result[.., i, ..] = self[.., index[.., i, ..], ..] along dim; result has the sizes of index.
//
// Reads an index and writes an element each once. Lanes (all dims but `dim`) that lie side by side in memory are taken up to 256
// at a time, so that a row of them is read together; along the last dim there are none, and a lane is a plain loop. Lanes are cut
// into pieces of about 16,384 elements. Indices are checked beforehand, in vectors: [1024, 1024] of float32 take 538 us along the
// last dim and 1,170 along the first on two threads of an Emerald Rapids, in place of 679 and 1,436 by a loop for SSE2.

#include <algorithm>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cpu/index/lanes.h"
#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

constexpr int64_t kMaxBlock = 256;
constexpr int64_t kTask = 16384;  // elements

template <typename T>
void gather_of(const View& self, int64_t dim, const View& index, const View& result) {
  const Lanes<3> lanes(index, dim, {&self, &index, &result});
  const int64_t length = index.ndim == 0 ? 1 : index.sizes[dim], rows = self.ndim == 0 ? 1 : self.sizes[dim];
  const int64_t side = lanes.side_by_side(), block = std::min(side, kMaxBlock);
  const int64_t blocks = (side + block - 1) / block;
  const int64_t piece = std::clamp<int64_t>(kTask / block, 1, length), pieces = (length + piece - 1) / piece;
  const int64_t in_self = lanes.along(0), in_index = lanes.along(1), in_result = lanes.along(2);
  const auto* from = static_cast<const T*>(self.data);
  auto* to = static_cast<T*>(result.data);
  visit_index(index, [&](const auto* indices) {
    const int64_t tasks = lanes.count() / side * blocks * pieces;
    parallel_for(tasks, grain_of_moves(block * piece * static_cast<int64_t>(sizeof(T))), [&](int64_t first, int64_t last) {
      for (int64_t task = first; task < last; ++task) {
        const int64_t begin = task % pieces * piece, end = std::min(length, begin + piece);
        const int64_t group = task / pieces, column = group % blocks * block, width = std::min(block, side - column);
        const auto [source, chosen, target] = lanes.offsets(group / blocks * side + column);
        if (side == 1 && in_self == 1 && in_index == 1 && in_result == 1) {
          check_run(indices + chosen + begin, end - begin, rows);
          for (int64_t i = begin; i < end; ++i) to[target + i] = from[source + static_cast<int64_t>(indices[chosen + i])];
          continue;
        }
        for (int64_t i = begin; i < end; ++i) {
          const auto* const rows_of_lanes = indices + chosen + i * in_index;
          check_run(rows_of_lanes, width, rows);
          for (int64_t lane = 0; lane < width; ++lane)
            to[target + i * in_result + lane] = from[source + static_cast<int64_t>(rows_of_lanes[lane]) * in_self + lane];
        }
      }
    });
  });
}

}  // namespace

void gather(const Context&, const View& self, int64_t dim, const View& index, const View& result) {
  if (index.numel() == 0) return;
  visit_item(self.dtype, [&]<typename T>(TypeTag<T>) { gather_of<T>(self, dim, index, result); });
}

}  // namespace deckle::kernels::cpu
