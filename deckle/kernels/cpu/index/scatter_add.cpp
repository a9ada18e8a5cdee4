// result = self, plus src[.., i, ..] at [.., index[.., i, ..], ..] along dim
//
// A lane (all dims but `dim`) belongs to one thread, which adds in float64 (integers: int64) in ascending order: bit-equal for
// any number of threads. Up to 64 lanes are processed at a time, so that neighbours in memory are read together.

#include <algorithm>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/lanes.h"
#include "deckle/kernels/cpu/index/rows.h"
#include "deckle/kernels/cpu/index/sums.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

constexpr int64_t kMaxBlock = 64;
constexpr int64_t kMaxSums = 1 << 17;  // 1 MiB per thread, unless a single lane is longer

template <typename T>
void scatter_add_of(const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  const int64_t rows = self.ndim == 0 ? 1 : self.sizes[dim];
  const int64_t length = index.ndim == 0 ? 1 : index.sizes[dim];
  const Lanes<2> reached(index, dim, {&index, &src});
  const Lanes<1> targets(index, dim, {&result});
  const int64_t block_lanes = std::clamp<int64_t>(kMaxSums / std::max<int64_t>(rows, 1), 1, kMaxBlock);
  const auto* from = self.ptr<const T>();
  const auto* added = src.ptr<const T>();
  auto* to = result.ptr<T>();

  // Lanes beyond the extent of index keep self's values.
  const bool covers = index.numel() > 0 && reached.count() * rows == self.numel();
  if (!covers) std::copy_n(from, self.numel(), to);
  if (index.numel() == 0) return;
  visit_index(index, [&](const auto* indices) {
    const int64_t blocks = (reached.count() + block_lanes - 1) / block_lanes;
    parallel_for(
        blocks, grain_of(block_lanes * (rows + length) * static_cast<int64_t>(sizeof(T))), [&](int64_t begin, int64_t end) {
          std::vector<SumOf<T>> sums(static_cast<size_t>(block_lanes * rows));
          std::array<int64_t, 2> source[kMaxBlock];
          std::array<int64_t, 1> target[kMaxBlock];
          for (int64_t block = begin; block < end; ++block) {
            const int64_t first = block * block_lanes, count = std::min(block_lanes, reached.count() - first);
            for (int64_t lane = 0; lane < count; ++lane) {
              source[lane] = reached.offsets(first + lane);
              target[lane] = targets.offsets(first + lane);
            }
            for (int64_t row = 0; row < rows; ++row) {
              for (int64_t lane = 0; lane < count; ++lane) {
                sums[static_cast<size_t>(row * block_lanes + lane)] =
                    static_cast<SumOf<T>>(from[target[lane][0] + row * targets.along(0)]);
              }
            }
            for (int64_t i = 0; i < length; ++i) {
              for (int64_t lane = 0; lane < count; ++lane) {
                const auto row = static_cast<int64_t>(indices[source[lane][0] + i * reached.along(0)]);
                check_index(row, rows);
                sums[static_cast<size_t>(row * block_lanes + lane)] +=
                    static_cast<SumOf<T>>(added[source[lane][1] + i * reached.along(1)]);
              }
            }
            for (int64_t row = 0; row < rows; ++row) {
              for (int64_t lane = 0; lane < count; ++lane) {
                to[target[lane][0] + row * targets.along(0)] = rounded<T>(sums[static_cast<size_t>(row * block_lanes + lane)]);
              }
            }
          }
        });
  });
}

}  // namespace

// self and result are contiguous and of equal sizes, so they share offsets.
void scatter_add(const Context&, const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  if (self.numel() == 0) return;
  visit(result.dtype, [&]<typename T>(TypeTag<T>) { scatter_add_of<T>(self, dim, index, src, result); });
}

}  // namespace deckle::kernels::cpu
