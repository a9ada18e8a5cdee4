#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/reduce/layout.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::reduce {

/// Some columns of several rows, `stride` elements apart.
template <typename T>
struct Columns {
  T* first;
  int64_t stride;

  T* row(int64_t r) const { return first + r * stride; }
};

/// Where columns that lie side by side begin in an operand, in elements: row r at first + r * stride, or first + order[r] *
/// stride.
struct ColumnsAt {
  int64_t first, stride;
  const int64_t* order = nullptr;
};

inline constexpr int64_t kTileElements = 131072;  // that stay in the second cache: half a MiB of float
inline constexpr int64_t kBlockRows = 64;         // rows of a tile asked for at a time, at most

/// The columns of one task as T, a block of rows at a time: in place; or, where rows lie anywhere or elements are of another
/// type, in a buffer: of all rows, if they stay in the second cache, else of one block, which is read, and written, in every pass
/// anew.
template <typename T>
class ColumnTile {
 public:
  /// For up to `width` columns of up to `rows` rows, in order or `anywhere`.
  ColumnTile(const View& view, bool anywhere, int64_t rows, int64_t width)
      : view_(view), width_(width), in_place_(!anywhere && view.dtype == dtype_of<T>), whole_(rows * width <= kTileElements) {
    if (!in_place_) buffer_ = scratch_.take<T>((whole_ ? rows : std::min(rows, kBlockRows)) * width);
  }
  /// Whether what is written of one block is lost when the next one is asked for.
  bool rereads_blocks() const { return !in_place_ && !whole_; }

  /// The tile at `place`, of `rows` rows and `n` columns; an operand's elements are read.
  void begin(const ColumnsAt& place, int64_t rows, int64_t n, bool read) {
    place_ = place, rows_ = rows, n_ = n;
    if (read && !in_place_ && whole_) load(0, rows);
  }
  Columns<const T> rows(int64_t r, int64_t count) {
    if (rereads_blocks()) load(r, count);
    return {at(r).first, at(r).stride};
  }
  Columns<T> at(int64_t r) const {
    if (!in_place_) return {buffer_ + (whole_ ? r * width_ : 0), width_};
    return {view_.ptr<T>() + place_.first + r * place_.stride, place_.stride};
  }
  /// Puts what was written where it belongs: after each block, and at the end.
  void written(int64_t r, int64_t count) {
    if (rereads_blocks()) store(r, count);
  }
  void end() {
    if (!in_place_ && whole_) store(0, rows_);
  }

 private:
  /// Rows lie one after another, here and in the buffer: a call for each of few columns would take longer than they do.
  bool is_one_run() const { return place_.order == nullptr && place_.stride == n_ && n_ == width_; }
  char* row(int64_t r) const {
    const int64_t number = place_.order == nullptr ? r : place_.order[r];
    return static_cast<char*>(view_.data) + (place_.first + number * place_.stride) * item_size(view_.dtype);
  }
  void load(int64_t first, int64_t count) {
    constexpr int64_t kAhead = 8, kLine = 64;  // rows, bytes: no hardware foresees rows that lie anywhere
    const int64_t bytes = place_.order == nullptr ? 0 : n_ * item_size(view_.dtype);
    T* to = buffer_;
    if (is_one_run()) return simd::load_run(row(first), view_.dtype, 1, count * n_, to);
    for (int64_t r = first; r < first + count; ++r, to += width_) {
      for (int64_t byte = 0; byte < bytes && r + kAhead < rows_; byte += kLine) __builtin_prefetch(row(r + kAhead) + byte);
      if (view_.dtype == dtype_of<T>)
        std::copy_n(reinterpret_cast<const T*>(row(r)), n_, to);
      else
        simd::load_run(row(r), view_.dtype, 1, n_, to);
    }
  }
  void store(int64_t first, int64_t count) {
    if (is_one_run()) return simd::store_run(buffer_, count * n_, row(first), view_.dtype, 1);
    for (int64_t r = 0; r < count; ++r) simd::store_run(buffer_ + r * width_, n_, row(first + r), view_.dtype, 1);
  }

  const View& view_;
  int64_t width_;
  bool in_place_, whole_;
  Scratch scratch_;
  T* buffer_ = nullptr;
  ColumnsAt place_{};
  int64_t rows_ = 0, n_ = 0;
};

/// body(first row, number of rows) for all blocks.
template <typename Body>
void for_blocks(int64_t rows, Body body, int64_t size = kBlockRows) {
  for (int64_t r = 0; r < rows; r += size) body(r, std::min(size, rows - r));
}

inline constexpr int64_t kFewestColumns = 16;  // fewer are gathered as rows

/// Whether an operand's kept dims end in contiguous columns, beside one reduced dim.
inline bool lies_in_columns(const Layout& layout) {
  const int last = layout.kept.count - 1;
  return layout.length > 0 && last >= 0 && layout.kept.strides[last] == 1 && layout.kept.sizes[last] >= kFewestColumns &&
         layout.reduced.count == 1 && layout.reduced.strides[0] > 1;
}

/// Columns from number `first` of all kept ones on.
inline ColumnsAt columns_at(const Layout& layout, int64_t first) {
  return {layout.kept.offset(first), layout.reduced.strides[0]};
}

/// Cuts the columns into tiles of up to `most` that lie side by side in every operand, for kept dims that merge in one need not
/// in another: body(width, tiles) on ranges of them, with buffers of its own; tiles(each) calls each(first column, number of
/// columns).
template <typename Body>
void for_column_tiles(std::initializer_list<const Layout*> layouts, int64_t most, Body body) {
  const Layout& layout = **layouts.begin();
  int64_t inner = std::numeric_limits<int64_t>::max();
  for (const Layout* each : layouts) inner = std::min(inner, each->kept.sizes[each->kept.count - 1]);
  const int64_t width = std::min(most, inner), outer = layout.rows / inner, tiles = (inner + width - 1) / width;
  const int64_t grain = std::max<int64_t>(1, kRowGrain / (layout.length * width));
  parallel_for(outer * tiles, grain, [&](int64_t begin, int64_t end) {
    body(width, [&](auto each) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t column = task % tiles * width;
        each(task / tiles * inner + column, std::min(width, inner - column));
      }
    });
  });
}

}  // namespace deckle::kernels::cpu::reduce
