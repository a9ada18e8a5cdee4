// Transposes of packed matrices whose elements are runs of `block` numbers: component b [M_b, N_b, block] -> [N_b, M_b, block].
//
// Reads and writes every byte once, in tiles of 16 x 16 elements: the columns of one tile are 16 cache lines, which stay in L1
// until all of their 16 rows are written.

#include <algorithm>
#include <cstring>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kSide = 16;
constexpr int64_t kBand = 64;  // rows of a task, so that a long component is shared out

struct Band {
  int64_t component, row;
};

/// T stands for any type of its size; `block` counts Ts.
template <typename T>
void transpose_band(const T* from, T* to, int64_t rows, int64_t cols, int64_t block, int64_t first, int64_t last) {
  for (int64_t row0 = first; row0 < last; row0 += kSide) {
    const int64_t row_end = std::min(row0 + kSide, last);
    for (int64_t col0 = 0; col0 < cols; col0 += kSide) {
      for (int64_t col = col0; col < std::min(col0 + kSide, cols); ++col) {
        for (int64_t row = row0; row < row_end; ++row) {
          if (block == 1) to[col * rows + row] = from[row * cols + col];
          else std::memcpy(to + (col * rows + row) * block, from + (row * cols + col) * block, static_cast<size_t>(block) * sizeof(T));
        }
      }
    }
  }
}

template <typename T>
void transpose_all(const View& self, const RaggedView& shape, const View& result) {
  const int64_t block = self.numel() / shape.rows();
  std::vector<Band> bands;
  for (int64_t b = 0; b < shape.components; ++b) {
    for (int64_t row = 0; row < shape.sizes[2 * b]; row += kBand) bands.push_back({b, row});
  }
  const auto count = static_cast<int64_t>(bands.size());
  const int64_t mean = std::max<int64_t>(1, self.numel() * static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(count, 1));
  parallel_for(count, 1 + (int64_t{64} << 10) / mean, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto [b, row] = bands[static_cast<size_t>(i)];
      const int64_t rows = shape.sizes[2 * b], offset = shape.offsets[b] * block;
      transpose_band(self.ptr<const T>() + offset, result.ptr<T>() + offset, rows, shape.sizes[2 * b + 1], block, row, std::min(row + kBand, rows));
    }
  });
}

}  // namespace

void grouped_transpose(const CpuContext&, const View& self, const RaggedView& shape, const RaggedView&, const View& result) {
  if (self.numel() == 0) return;
  switch (item_size(self.dtype)) {
    case 1:
      return transpose_all<uint8_t>(self, shape, result);
    case 2:
      return transpose_all<uint16_t>(self, shape, result);
    case 4:
      return transpose_all<uint32_t>(self, shape, result);
    default:
      return transpose_all<uint64_t>(self, shape, result);
  }
}

}  // namespace deckle::kernels::cpu
