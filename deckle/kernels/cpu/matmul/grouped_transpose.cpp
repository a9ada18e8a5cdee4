// Transposes of packed matrices whose elements are runs of `block` numbers: component b [M_b, N_b, block] -> [N_b, M_b, block].
//
// Reads and writes every byte once, a band of rows at a time (simd/transpose.h; runs are copied).

#include <algorithm>
#include <cstring>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kBand = 64;  // rows of a task, so that a long component is split across threads

struct Band {
  int64_t component, row;
};

/// T stands for any type of its size; `block` counts Ts.
template <typename T>
void transpose_band(const T* from, T* to, int64_t rows, int64_t cols, int64_t block, int64_t first, int64_t last) {
  if (block == 1) return simd::transpose(from + first * cols, cols, last - first, cols, to + first, rows);
  for (int64_t row = first; row < last; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      std::memcpy(to + (col * rows + row) * block, from + (row * cols + col) * block, static_cast<size_t>(block) * sizeof(T));
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
      transpose_band(self.ptr<const T>() + offset, result.ptr<T>() + offset, rows, shape.sizes[2 * b + 1], block, row,
                     std::min(row + kBand, rows));
    }
  });
}

}  // namespace

void grouped_transpose(const Context&, const View& self, const RaggedView& shape, const RaggedView&, const View& result) {
  if (self.numel() == 0) return;
  visit_item(self.dtype, [&]<typename T>(TypeTag<T>) { transpose_all<T>(self, shape, result); });
}

}  // namespace deckle::kernels::cpu
