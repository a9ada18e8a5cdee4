// Iteration of reductions to one value per row.
//
// Two access patterns, by what is contiguous:
//   rows      the reduced elements of a row are contiguous (or are gathered): row() on pieces of up to 131,072 elements
//   columns   a kept dim is contiguous: strips of 512 columns, columns() on pieces of rows; other types are widened, some rows
//             at a time
// Rows of few elements are transposed, some hundred at a time, and folded as columns; few rows of columns are folded without
// partial results. Sums in float32, two threads of an Emerald Rapids, us (0b96f1b3 and its parent, 2026-11-28):
//                  [2, 1024, 1024] over dim 0   [1024, 1024, 2] over dim 2
//   as long ones   924                          6,553
//   as above       280                          340
// Halves and int32 are widened in registers by those that have functions for them (StoredFold), which spares them a buffer.
// Both split long reductions into pieces whose partial results are combined in order, so that few long rows still use all
// threads and the result is the same for any number of them.
#include "deckle/kernels/cpu/reduce/values.h"

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/reduce/layout.h"
#include "deckle/kernels/cpu/reduce/scaled.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::reduce {
namespace {

constexpr int64_t kPiece = 131072;   // elements of a row, or of a strip of columns, folded into one partial result
constexpr int64_t kStrip = 512;      // columns: their partial results stay in L1
constexpr int64_t kManyStrips = 64;  // strips enough for any number of threads: their rows are cut into longer pieces
constexpr int64_t kFewColumns = 16;  // with fewer columns most vector lanes would be idle: rows are gathered instead
constexpr int64_t kGatheredRows = 64;
constexpr int64_t kShortRow = 8;       // elements of a row that is folded as a column of many
constexpr int64_t kWidenedRows = 128;  // of a strip: they stay in the second cache
constexpr size_t kLine = 64;           // bytes: vectors of arrays on the stack cross none

int64_t pieces_of(int64_t count, int64_t piece) { return (count + piece - 1) / piece; }

/// What has row, columns and few of elements as they are stored.
template <typename S, typename T, typename A>
const auto& stored(const Fold<T, A>& op) {
  if constexpr (std::is_same_v<S, T>)
    return op;
  else
    return std::get<StoredFold<S, T, A>>(op.narrow);
}

/// Whether `few` gives the values of rows of `length` elements stored as S.
template <typename S, typename T, typename A>
bool takes_few(const Fold<T, A>& op, int64_t length, double parameter) {
  return length <= kDeep && parameter == 1 && stored<S>(op).few != nullptr;
}

/// Folded rows, finished and written to the result in batches.
template <typename T, typename A>
struct Output {
  const Fold<T, A>& op;
  const View& self;
  const Layout& layout;
  double parameter;
  const View& result;

  char* at(int64_t row) const { return static_cast<char*>(result.data) + row * item_size(result.dtype); }
  /// Calls fill(values) to have the values of `count` rows put where they belong, or into `own` and then there.
  template <typename Fill>
  void take(int64_t first, int64_t count, T* own, const Fill& fill) const {
    if (result.dtype == dtype_of<T>) return fill(reinterpret_cast<T*>(at(first)));
    fill(own);
    simd::store_run(own, count, at(first), result.dtype, 1);
  }
  void write(int64_t first, int64_t count, const A* folded) const {
    char* const to = static_cast<char*>(result.data);
    const int64_t size = item_size(result.dtype);
    if constexpr (std::is_same_v<A, int64_t>) {
      simd::store_run(folded, count, to + first * size, result.dtype, 1);
    } else {
      alignas(kLine) double values[kStrip];
      for (int64_t i = 0; i < count; i += kStrip) {
        const int64_t n = std::min(kStrip, count - i);
        finish_rows(op, n, folded + i, layout.length, parameter, values,
                    [&](int64_t row, int64_t rows, int64_t from, int64_t size, T* block) {
                      gather_rows(self, layout, first + i + row, rows, from, size, block);
                    });
        simd::store_run(values, n, to + (first + i) * size, result.dtype, 1);
      }
    }
  }
};

/// Combines `pieces` partial results of each of `rows` rows, [outer, pieces, width], in order.
template <typename T, typename A>
void combine_pieces(const Fold<T, A>& op, const A* partial, int64_t rows, int64_t pieces, int64_t width,
                    const Output<T, A>& output) {
  parallel_for(rows, std::max<int64_t>(1, kPiece / pieces), [&](int64_t begin, int64_t end) {
    Scratch scratch;
    A* const values = scratch.take<A>(end - begin);
    for (int64_t row = begin; row < end;) {  // by runs of one index, piece after piece, as they lie
      const int64_t run = std::min(width - row % width, end - row);
      const A* parts = partial + row / width * pieces * width + row % width;
      A* const into = values + (row - begin);
      std::copy_n(parts, run, into);
      for (int64_t p = 1; p < pieces; ++p) {
        parts += width;
        for (int64_t i = 0; i < run; ++i) into[i] = op.combine(into[i], parts[i]);
      }
      row += run;
    }
    output.write(begin, end - begin, values);
  });
}

/// S is the type in memory of operands that are read where they are.
template <typename S, typename T, typename A>
void fold_rows(const Fold<T, A>& op, const View& self, const Layout& layout, const Output<T, A>& output) {
  const int64_t length = layout.length, pieces = pieces_of(length, kPiece), longest = std::min(length, kPiece);
  Scratch scratch;
  A* const partial = pieces > 1 ? scratch.take<A>(layout.rows * pieces) : nullptr;
  const bool runs_on =
      self.dtype == dtype_of<S> && (layout.reduced.count == 0 || (layout.reduced.count == 1 && layout.reduced.strides[0] == 1));
  const bool dense = layout.dense_rows();
  const int64_t tile = (runs_on && !dense) || pieces > 1 ? 1 : std::clamp<int64_t>(kPiece / longest, 1, kGatheredRows);
  const int64_t grain = pieces > 1 ? 1 : (std::max<int64_t>(1, kPiece / length) + tile - 1) / tile * tile;
  parallel_for(layout.rows * pieces, grain, [&](int64_t begin, int64_t end) {
    alignas(kLine) A own[kStrip];
    int64_t kept = 0;  // rows in `own`
    Scratch gathered;
    T* const block = runs_on ? nullptr : gathered.take<T>(tile * longest);
    for (int64_t item = begin; item < end; item += tile) {
      const int64_t row = item / pieces, from = item % pieces * kPiece, n = std::min(kPiece, length - from);
      const int64_t rows = std::min(tile, end - item);
      A* const out = pieces > 1 ? partial + item : own + kept;
      if (runs_on) {
        const S* const x = self.ptr<S>() + (dense ? row * length : layout.kept.offset(row)) + from;
        for (int64_t r = 0; r < rows; ++r) out[r] = stored<S>(op).row(n, x + r * length);
      } else {
        gather_rows(self, layout, row, rows, from, n, block);
        for (int64_t r = 0; r < rows; ++r) out[r] = op.row(n, block + r * n);
      }
      if (pieces > 1) continue;
      kept += rows;
      if (kept + tile > kStrip || item + rows == end) {
        output.write(item + rows - kept, kept, own);
        kept = 0;
      }
    }
  });
  if (pieces > 1) combine_pieces(op, partial, layout.rows, pieces, 1, output);
}

/// Rows of up to kShortRow elements, which are transposed into columns.
template <typename T, typename A>
void fold_short_rows(const Fold<T, A>& op, const View& self, const Layout& layout, const Output<T, A>& output) {
  const int64_t length = layout.length, tiles = pieces_of(layout.rows, kStrip);
  const bool direct = self.dtype == dtype_of<T> && layout.dense_rows(), few = takes_few<T>(op, length, output.parameter);
  parallel_for(tiles, std::max<int64_t>(1, kPiece / (length * kStrip)), [&](int64_t begin, int64_t end) {
    alignas(kLine) A own[kStrip];
    alignas(kLine) T values[kStrip], gathered[kStrip * kShortRow], block[kStrip * kShortRow];
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t row = tile * kStrip, count = std::min(kStrip, layout.rows - row);
      if (!direct) gather_rows(self, layout, row, count, 0, length, gathered);
      const T* const from = direct ? self.ptr<const T>() + row * length : gathered;
      using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      simd::transpose(reinterpret_cast<const Word*>(from), length, count, length, reinterpret_cast<Word*>(block), count);
      const Rows<T> rows{block, count, length};
      if (few) {
        output.take(row, count, values, [&](T* to) { op.few(rows, count, to); });
      } else {
        std::fill_n(own, count, op.nothing);
        op.columns(rows, count, own);
        output.write(row, count, own);
      }
    }
  });
}

/// The kept dims end in one of stride 1, [..., columns]; rows of the strip are the reduced elements.
template <typename S, typename T, typename A>
void fold_columns(const Fold<T, A>& op, const View& self, const Layout& layout, const Output<T, A>& output) {
  const int64_t columns = layout.kept.sizes[layout.kept.count - 1];
  const int64_t outer = layout.rows / columns, strips = pieces_of(columns, kStrip);
  const int64_t rows_per_piece = (outer * strips < kManyStrips ? 1 : 16) * kPiece / std::min(columns, kStrip);
  const int64_t pieces = pieces_of(layout.length, rows_per_piece);
  Scratch scratch;
  A* const partial = pieces > 1 ? scratch.take<A>(layout.rows * pieces) : nullptr;
  const int64_t run = layout.reduced.count > 0 ? layout.reduced.sizes[layout.reduced.count - 1] : 1;
  const int64_t run_stride = layout.reduced.count > 0 ? layout.reduced.strides[layout.reduced.count - 1] : 0;
  const int64_t grain = std::max<int64_t>(1, kPiece / (std::min(columns, kStrip) * std::min(layout.length, rows_per_piece)));
  const int64_t size = item_size(self.dtype);
  const bool direct = self.dtype == dtype_of<S>;
  const bool few = direct && layout.reduced.count <= 1 && takes_few<S>(op, layout.length, output.parameter);
  parallel_for(outer * pieces * strips, grain, [&](int64_t begin, int64_t end) {
    alignas(kLine) A own[kStrip];
    T few_values[kStrip];
    Scratch widened;
    T* const block = direct ? nullptr : widened.take<T>(std::min(kWidenedRows, run) * std::min(columns, kStrip));
    for (int64_t item = begin; item < end; ++item) {
      const int64_t strip = item % strips * kStrip, width = std::min(kStrip, columns - strip);
      const int64_t piece = item / strips % pieces, index = item / strips / pieces;
      if (few) {
        const Rows<S> rows{self.ptr<const S>() + layout.kept.offset(index * columns) + strip, run_stride, layout.length};
        output.take(index * columns + strip, width, few_values, [&](T* to) { stored<S>(op).few(rows, width, to); });
        continue;
      }
      A* const values = pieces > 1 ? partial + (index * pieces + piece) * columns + strip : own;
      std::fill(values, values + width, op.nothing);
      const int64_t base = layout.kept.offset(index * columns) + strip;
      const int64_t last = std::min((piece + 1) * rows_per_piece, layout.length);
      for (int64_t row = piece * rows_per_piece; row < last;) {
        const int64_t rows = std::min({run - row % run, last - row, direct ? last : kWidenedRows});
        const char* const from = static_cast<const char*>(self.data) + (base + layout.reduced.offset(row)) * size;
        if (direct) {
          stored<S>(op).columns({reinterpret_cast<const S*>(from), run_stride, rows}, width, values);
        } else {
          for (int64_t r = 0; r < rows; ++r)
            simd::load_run(from + r * run_stride * size, self.dtype, 1, width, block + r * width);
          op.columns({block, width, rows}, width, values);
        }
        row += rows;
      }
      if (pieces == 1) output.write(index * columns + strip, width, own);
    }
  });
  if (pieces > 1) combine_pieces(op, partial, layout.rows, pieces, columns, output);
}

template <typename T, typename A>
void fold_typed(const Fold<T, A>& op, const View& self, std::span<const int64_t> dims, double parameter, const View& result) {
  const Layout layout(self, dims, Layout::Order::any);
  const Output<T, A> output{op, self, layout, parameter, result};
  if (layout.rows == 0) return;
  if (layout.length == 0) {
    Scratch scratch;
    A* const nothing = scratch.take<A>(layout.rows);
    std::fill_n(nothing, layout.rows, op.nothing);
    return output.write(0, layout.rows, nothing);
  }
  const bool columns = layout.kept.count > 0 && layout.kept.strides[layout.kept.count - 1] == 1 &&
                       layout.kept.sizes[layout.kept.count - 1] >= kFewColumns &&
                       (layout.reduced.count == 0 || layout.reduced.strides[layout.reduced.count - 1] != 1);
  const bool short_rows = !columns && layout.length > 1 && layout.length <= kShortRow && layout.rows >= kFewColumns;
  const auto folded_as_stored = [&]<typename S>(const StoredFold<S, T, A>& own) {
    if (self.dtype != dtype_of<S>) return false;
    if (columns && own.columns != nullptr) return fold_columns<S>(op, self, layout, output), true;
    if (!columns && !short_rows && own.row != nullptr) return fold_rows<S>(op, self, layout, output), true;
    return false;
  };
  if (std::apply([&](const auto&... own) { return (folded_as_stored(own) || ...); }, op.narrow)) return;
  if (short_rows) return fold_short_rows(op, self, layout, output);
  columns ? fold_columns<T>(op, self, layout, output) : fold_rows<T>(op, self, layout, output);
}

template <typename A>
void fold_real(const RealFolds<A>& folds, const View& self, std::span<const int64_t> dims, double parameter, const View& result) {
  if (self.dtype == DType::float64)
    fold_typed(folds.f64, self, dims, parameter, result);
  else
    fold_typed(folds.f32, self, dims, parameter, result);
}

}  // namespace

template <typename A>
void fold(const Folds<A>& folds, const View& self, std::span<const int64_t> dims, double parameter, const View& result) {
  if (is_floating(self.dtype))
    fold_real<A>(folds, self, dims, parameter, result);
  else
    fold_typed(folds.i64, self, dims, parameter, result);
}

template <typename A>
void fold(const RealFolds<A>& folds, const View& self, std::span<const int64_t> dims, double parameter, const View& result) {
  fold_real(folds, self, dims, parameter, result);
}

template void fold(const Folds<CompensatedSum>&, const View&, std::span<const int64_t>, double, const View&);
template void fold(const Folds<double>&, const View&, std::span<const int64_t>, double, const View&);
template void fold(const Folds<ScaledProduct>&, const View&, std::span<const int64_t>, double, const View&);
template void fold(const RealFolds<Squares>&, const View&, std::span<const int64_t>, double, const View&);
template void fold(const RealFolds<Moments>&, const View&, std::span<const int64_t>, double, const View&);

}  // namespace deckle::kernels::cpu::reduce
