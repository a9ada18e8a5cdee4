// Iteration of reductions to one value per component and column.                       values: [rows, inner], result: [B, inner]
//
// The arithmetic is that of dense reductions (reduce/values.h): a component of one column is a run, otherwise kDeep rows at a
// time are folded column by column. Work is partitioned by component and columns; a long component is also split into pieces of
// kPiece rows, whose partial results are combined in order. Rows that are not contiguous (RaggedView::order) are read in place.
#include "deckle/kernels/cpu/segment/values.h"
#include "deckle/base/scratch.h"

#include <algorithm>
#include <vector>

#include "deckle/kernels/cpu/reduce/scaled.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu::segment {
namespace {

using reduce::Fold;
using reduce::kDeep;
static_assert(kColumns <= reduce::kMostColumns);

constexpr int64_t kPiece = 4096;    // rows
constexpr int64_t kBuffered = 256;  // columns converted at a time: kDeep rows of them stay in L1

/// Where folded columns of components go.
template <typename T, typename A>
struct Output {
  const Fold<T, A>& op;
  const View& values;
  const RaggedView& ragged;
  const Parameter& parameter;
  const View& result;
  int64_t inner;

  /// Finishes columns [first, first + columns) of component b.
  void write(int64_t b, int64_t first, int64_t columns, const A* folded) const {
    if constexpr (std::is_same_v<A, int64_t>) {
      write_row(result, inner, b, first, columns, folded);
    } else {
      double finished[kColumns];
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
      reduce::finish_rows(op, columns, folded, length, parameter(length), finished,
                          [&](int64_t column, int64_t count, int64_t from, int64_t n, T* block) {
                            T row[kColumns];
                            for (int64_t r = 0; r < n; ++r) {
                              const T* const x = read_run(values, ragged, inner, begin + from + r, first + column, count, row);
                              for (int64_t c = 0; c < count; ++c) block[c * n + r] = x[c];
                            }
                          });
      write_row(result, inner, b, first, columns, finished);
    }
  }
};

template <typename T, typename A>
void fold_typed(const Fold<T, A>& op, const View& values, const RaggedView& ragged, const Parameter& parameter,
                const View& result) {
  const int64_t inner = inner_size(values);
  if (inner == 0) return;
  const Output<T, A> output{op, values, ragged, parameter, result, inner};
  // Pieces of components, in order; most components are one piece.
  std::vector<int64_t> first_piece(static_cast<size_t>(ragged.components) + 1, 0);
  for (int64_t b = 0; b < ragged.components; ++b) {
    const int64_t rows = ragged.offsets[b + 1] - ragged.offsets[b];
    first_piece[static_cast<size_t>(b) + 1] =
        first_piece[static_cast<size_t>(b)] + std::max<int64_t>(1, (rows + kPiece - 1) / kPiece);
  }
  const int64_t pieces = first_piece.back();
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  const int64_t average = std::max<int64_t>(1, ragged.rows() / std::max<int64_t>(pieces, 1));
  const int64_t grain = std::max<int64_t>(1, kGrain / (average * std::min(inner, kColumns)));
  Scratch scratch;
  A* const partial = pieces > ragged.components ? scratch.take<A>(pieces * inner) : nullptr;
  parallel_for(pieces * blocks, grain, [&](int64_t begin, int64_t end) {
    A results[kColumns];
    int64_t b = std::upper_bound(first_piece.begin(), first_piece.end(), begin / blocks) - first_piece.begin() - 1;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t piece = task / blocks, first = task % blocks * kColumns, columns = std::min(kColumns, inner - first);
      b += piece == first_piece[static_cast<size_t>(b) + 1];
      const int64_t start = ragged.offsets[b] + (piece - first_piece[static_cast<size_t>(b)]) * kPiece,
                    last = ragged.offsets[b + 1];
      fold_rows(op, values, ragged, inner, start, std::min(start + kPiece, last), first, columns, results);
      if (partial == nullptr)
        output.write(b, first, columns, results);
      else
        std::copy_n(results, columns, partial + piece * inner + first);
    }
  });
  if (partial == nullptr) return;
  for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
    A results[kColumns];
    std::fill_n(results, columns, op.nothing);
    for (int64_t piece = first_piece[static_cast<size_t>(b)]; piece < first_piece[static_cast<size_t>(b) + 1]; ++piece) {
      for (int64_t c = 0; c < columns; ++c) results[c] = op.combine(results[c], partial[piece * inner + first + c]);
    }
    output.write(b, first, columns, results);
  });
}

}  // namespace

template <typename T, typename A>
void fold_rows(const Fold<T, A>& op, const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end,
               int64_t first, int64_t columns, A* results) {
  std::fill_n(results, columns, op.nothing);
  if (begin >= end) return;
  const bool direct = values.dtype == dtype_of<T>;
  if (inner == 1 && direct && ragged.order == nullptr) {
    results[0] = op.row(end - begin, values.ptr<T>() + begin);
    return;
  }
  T buffer[kDeep * kBuffered];
  if (inner == 1) {
    for (int64_t row = begin; row < end; row += kDeep * kBuffered) {
      const int64_t count = std::min(kDeep * kBuffered, end - row);
      results[0] = op.combine(results[0], op.row(count, read_run(values, ragged, 1, row, 0, count, buffer)));
    }
    return;
  }
  if (direct) {
    const T* const values_at = values.ptr<T>() + first;
    if (ragged.order == nullptr) return op.columns({values_at + begin * inner, inner, end - begin}, columns, results);
    for (int64_t row = begin; row < end; row += kDeep) {
      const int64_t deep = std::min(kDeep, end - row);
      for (int64_t i = 0; i < deep; ++i) prefetch_row(values, ragged, inner, row + i, first, columns);
      op.columns({values_at, inner, deep, ragged.order + row}, columns, results);
    }
    return;
  }
  for (int64_t c = 0; c < columns; c += kBuffered) {
    const int64_t count = std::min(kBuffered, columns - c);
    for (int64_t row = begin; row < end; row += kDeep) {
      const int64_t deep = std::min(kDeep, end - row);
      for (int64_t i = 0; i < deep; ++i) read_run(values, ragged, inner, row + i, first + c, count, buffer + i * kBuffered);
      op.columns({buffer, kBuffered, deep}, count, results + c);
    }
  }
}

template <typename A>
void fold(const reduce::Folds<A>& folds, const View& values, const RaggedView& ragged, const Parameter& parameter,
          const View& result) {
  if (is_floating(values.dtype))
    fold<A>(static_cast<const reduce::RealFolds<A>&>(folds), values, ragged, parameter, result);
  else
    fold_typed(folds.i64, values, ragged, parameter, result);
}

template <typename A>
void fold(const reduce::RealFolds<A>& folds, const View& values, const RaggedView& ragged, const Parameter& parameter,
          const View& result) {
  visit_real(values.dtype,
             [&]<typename T>(TypeTag<T>) { fold_typed(folds.template of<T>(), values, ragged, parameter, result); });
}

template void fold(const reduce::Folds<CompensatedSum>&, const View&, const RaggedView&, const Parameter&, const View&);
template void fold(const reduce::Folds<reduce::ScaledProduct>&, const View&, const RaggedView&, const Parameter&, const View&);
template void fold(const reduce::Folds<double>&, const View&, const RaggedView&, const Parameter&, const View&);
template void fold(const reduce::RealFolds<reduce::Squares>&, const View&, const RaggedView&, const Parameter&, const View&);
template void fold(const reduce::RealFolds<reduce::Moments>&, const View&, const RaggedView&, const Parameter&, const View&);
template void fold_rows(const Fold<float, double>&, const View&, const RaggedView&, int64_t, int64_t, int64_t, int64_t, int64_t,
                        double*);
template void fold_rows(const Fold<double, double>&, const View&, const RaggedView&, int64_t, int64_t, int64_t, int64_t, int64_t,
                        double*);

}  // namespace deckle::kernels::cpu::segment
