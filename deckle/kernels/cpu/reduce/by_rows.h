#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/reduce/layout.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::reduce {

/// Rows as contiguous arrays [rows, length] of T: in place if they are contiguous, else copied through a buffer tile by
/// tile.
template <typename T>
struct RowBlock {
  const View& view;
  Layout layout;
  bool direct;
  Scratch scratch;
  T* memory = nullptr;

  RowBlock(const View& view, int64_t dim)
      : view(view), layout(view, dim), direct(view.dtype == dtype_of<T> && layout.dense_rows()) {}
  RowBlock(const RowBlock& other, int64_t tile) : view(other.view), layout(other.layout), direct(other.direct) {
    if (!direct) memory = scratch.take<T>(tile * layout.length);
  }
  T* at(int64_t row) const { return direct ? view.template ptr<T>() + row * layout.length : memory; }
  T* fill(int64_t row, int64_t rows) const {
    if (!direct) gather_rows(view, layout, row, rows, 0, layout.length, memory);
    return at(row);
  }
  void finish(int64_t row, int64_t rows) const {
    if (!direct) scatter_rows(memory, view, layout, row, rows);
  }
};

inline constexpr int64_t kRowGrain = 16384;  // elements per parallel range

inline constexpr int64_t kPiece = 32768;  // elements: longer rows may be split across threads

/// Rows gathered at a time: if memory is dense across them, at least a cache line's worth, and few enough for L2.
constexpr int64_t tile_rows(int64_t length) { return std::clamp<int64_t>(65536 / length, 16, 64); }

/// Runs body(first, rows, length, x, y) on blocks of rows along `dim`: x[i] of inputs[i], y[o] of outputs[o], each a
/// contiguous [rows, length] array of T; `first` is the number of the first row. All views have equal sizes.
template <typename T, size_t kInputs, size_t kOutputs, typename Body>
void by_rows(const std::array<const View*, kInputs>& inputs, const std::array<const View*, kOutputs>& outputs, int64_t dim,
             Body body) {
  const Layout shape(*inputs[0], dim);
  const int64_t rows = shape.rows, length = shape.length;
  if (length == 0 && kOutputs > 0) return;  // however many rows there are
  const int64_t at_least_one = std::max<int64_t>(length, 1);
  const int64_t grain = std::max<int64_t>(1, kRowGrain / at_least_one), side = tile_rows(at_least_one);
  const auto run = [&]<size_t... I, size_t... O>(std::index_sequence<I...>, std::index_sequence<O...>) {
    const std::array<RowBlock<T>, kInputs> in{RowBlock<T>(*inputs[I], dim)...};
    const std::array<RowBlock<T>, kOutputs> out{RowBlock<T>(*outputs[O], dim)...};
    const bool direct = (in[I].direct && ...) && (out[O].direct && ...);
    const int64_t range = direct ? grain : (grain + side - 1) / side * side;
    const int64_t tile = direct ? range : std::min(side, rows);
    parallel_for(rows, range, [&](int64_t begin, int64_t end) {
      const std::array<RowBlock<T>, kInputs> own_in{RowBlock<T>(in[I], tile)...};
      [[maybe_unused]] const std::array<RowBlock<T>, kOutputs> own_out{RowBlock<T>(out[O], tile)...};
      for (int64_t row = begin; row < end; row += tile) {
        const int64_t n = std::min(tile, end - row);
        const std::array<const T*, kInputs> x{own_in[I].fill(row, n)...};
        const std::array<T*, kOutputs> y{own_out[O].at(row)...};
        body(row, n, length, x, y);
        (own_out[O].finish(row, n), ...);
      }
    });
  };
  run(std::make_index_sequence<kInputs>(), std::make_index_sequence<kOutputs>());
}

/// Runs body(row, x, y) on every row: x of `self`, y of `result`, each a contiguous array of T. Both have as many rows, over any
/// dims, and at least one element.
template <typename T, typename Body>
void map_rows(const View& self, const Layout& from, const View& result, const Layout& to, const Body& body) {
  const int64_t length = from.length, side = length >= kRowGrain ? 1 : tile_rows(length);
  const int64_t grain = (std::max<int64_t>(1, kRowGrain / length) + side - 1) / side * side;
  const bool reads = self.dtype == dtype_of<T> && from.dense_rows(), writes = result.dtype == dtype_of<T> && to.dense_rows();
  parallel_for(from.rows, grain, [&](int64_t begin, int64_t end) {
    Scratch scratch;
    T* const in = reads ? nullptr : scratch.take<T>(side * length);
    T* const out = writes ? nullptr : scratch.take<T>(side * length);
    for (int64_t row = begin; row < end; row += side) {
      const int64_t rows = std::min(side, end - row);
      if (!reads) gather_rows(self, from, row, rows, 0, length, in);
      const T* const x = reads ? self.ptr<const T>() + row * length : in;
      T* const y = writes ? result.ptr<T>() + row * length : out;
      for (int64_t r = 0; r < rows; ++r) body(row + r, x + r * length, y + r * length);
      if (!writes) scatter_rows(out, result, to, row, rows);
    }
  });
}

}  // namespace deckle::kernels::cpu::reduce
