// result[.., i, ..] = self[.., index[.., i, ..], ..] along dim; result has the sizes of index.
//
// Lanes (all dims but `dim`) are processed 64 at a time, so that neighbours in memory are read together whatever the dim.

#include <algorithm>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/lanes.h"
#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

constexpr int64_t kBlock = 64;

template <typename T>
void gather_of(const View& self, int64_t dim, const View& index, const View& result) {
  const Lanes<3> lanes(index, dim, {&self, &index, &result});
  const int64_t length = index.ndim == 0 ? 1 : index.sizes[dim], rows = self.ndim == 0 ? 1 : self.sizes[dim];
  const auto* from = static_cast<const T*>(self.data);
  auto* to = static_cast<T*>(result.data);
  visit_index(index, [&](const auto* indices) {
    const int64_t blocks = (lanes.count() + kBlock - 1) / kBlock;
    parallel_for(blocks, grain_of(kBlock * length * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
      std::array<int64_t, 3> offsets[kBlock];
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kBlock, count = std::min(kBlock, lanes.count() - first);
        for (int64_t lane = 0; lane < count; ++lane) offsets[lane] = lanes.offsets(first + lane);
        for (int64_t i = 0; i < length; ++i) {
          for (int64_t lane = 0; lane < count; ++lane) {
            const auto& [source, chosen, target] = offsets[lane];
            const auto row = static_cast<int64_t>(indices[chosen + i * lanes.along(1)]);
            check_index(row, rows);
            to[target + i * lanes.along(2)] = from[source + row * lanes.along(0)];
          }
        }
      }
    });
  });
}

}  // namespace

void gather(const Context&, const View& self, int64_t dim, const View& index, const View& result) {
  if (index.numel() == 0) return;
  switch (item_size(self.dtype)) {
    case 1:
      return gather_of<uint8_t>(self, dim, index, result);
    case 2:
      return gather_of<uint16_t>(self, dim, index, result);
    case 4:
      return gather_of<uint32_t>(self, dim, index, result);
    default:
      return gather_of<uint64_t>(self, dim, index, result);
  }
}

}  // namespace deckle::kernels::cpu
