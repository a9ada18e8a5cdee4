// result[outer, i, :] = source[outer, index[i], :].                 Reads and writes every byte of the result once.

#include "deckle/kernels/cpu/index/take_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "deckle/base/parallel.h"
#include "deckle/kernels/cpu/simd/reverse.h"

namespace deckle::kernels::cpu::indexing {
namespace {

/// take(row of the result, row of the source) for all of them, in parallel ranges.
template <typename Take>
void for_taken_rows(const RowShape& shape, const View& index, int64_t row_bytes, const Take& take) {
  const int64_t taken = index.numel();
  const bool checked = shape.outer > 1;  // once, in place of once for every outer item
  if (checked) check_indices(index, shape.rows);
  visit_index(index, [&](const auto* indices) {
    parallel_for(shape.outer * taken, grain_of_moves(row_bytes), [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end;) {  // the part of one outer item
        const int64_t outer = first / taken, start = outer * taken, base = outer * shape.rows;
        const int64_t last = std::min(end, start + taken);
        for (int64_t i = first; i < last; ++i) {
          const auto row = static_cast<int64_t>(indices[i - start]);
          if (!checked) check_index(row, shape.rows);
          take(i, base + row);
        }
        first = last;
      }
    });
  });
}

/// take_elements of an index that counts down, in vectors.
template <typename T>
void reverse_elements(const T* from, int64_t rows, int64_t first, int64_t outer, int64_t taken, T* to) {
  const int64_t piece = grain_of_moves(sizeof(T)), pieces = (taken + piece - 1) / piece;
  parallel_for(outer * pieces, grain_of_moves(std::min(piece, taken) * static_cast<int64_t>(sizeof(T))),
               [=](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t start = task % pieces * piece, count = std::min(piece, taken - start);
                   const T* const last = from + task / pieces * rows + first - start;
                   T* const target = to + task / pieces * taken + start;
                   simd::reverse(last - (count - 1), count, target);
                 }
               });
}

template <typename T>
void take_elements(const View& source, const RowShape& shape, const View& index, const View& result) {
  const auto* const from = static_cast<const T*>(source.data);
  auto* const to = static_cast<T*>(result.data);
  if (counts_down(index, shape.rows)) {
    const int64_t first = visit_index(index, [](const auto* indices) { return static_cast<int64_t>(indices[0]); });
    return reverse_elements(from, shape.rows, first, shape.outer, index.numel(), to);
  }
  for_taken_rows(shape, index, sizeof(T), [=](int64_t target, int64_t row) { to[target] = from[row]; });
}

}  // namespace

void take_rows(const View& source, const RowShape& shape, const View& index, const View& result) {
  const int64_t row_bytes = shape.inner * item_size(source.dtype);
  // A row of several elements lies only as its elements do: a view may start anywhere.
  const auto lies = [&](const View& view) {
    return reinterpret_cast<uintptr_t>(view.data) % static_cast<size_t>(row_bytes) == 0;
  };
  const bool one_number = row_bytes > 0 && lies(source) && lies(result);
  switch (one_number ? row_bytes : 0) {
    case 1:
      return take_elements<uint8_t>(source, shape, index, result);
    case 2:
      return take_elements<uint16_t>(source, shape, index, result);
    case 4:
      return take_elements<uint32_t>(source, shape, index, result);
    case 8:
      return take_elements<uint64_t>(source, shape, index, result);
    default:
      break;
  }
  const auto* const from = static_cast<const char*>(source.data);
  auto* const to = static_cast<char*>(result.data);
  for_taken_rows(shape, index, row_bytes, [=](int64_t target, int64_t row) {
    if (row_bytes > 0) std::memcpy(to + target * row_bytes, from + row * row_bytes, static_cast<size_t>(row_bytes));
  });
}

}  // namespace deckle::kernels::cpu::indexing
