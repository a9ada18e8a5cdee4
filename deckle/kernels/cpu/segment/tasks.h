#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/reduce/column_tile.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::segment {

inline constexpr int64_t kColumns = 1024;  // columns of one task: rows are read in long runs, and per-column state fits L1
inline constexpr int64_t kGrain = 16384;   // elements per parallel range

/// Regular elements per row.
inline int64_t inner_size(const View& view) {
  int64_t inner = 1;
  for (int dim = 1; dim < view.ndim; ++dim) inner *= view.sizes[dim];
  return inner;
}

/// Calls body(component, first_column, columns) for every component and block of columns: many small components share a
/// parallel range, a wide one is cut by columns. The partition depends on the shape alone.
template <typename Body>
void for_components(const RaggedView& ragged, int64_t inner, Body body) {
  if (inner == 0) return;
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  const int64_t mean = std::max<int64_t>(1, ragged.components == 0 ? 1 : ragged.rows() / ragged.components);
  const int64_t grain = std::max<int64_t>(1, kGrain / (mean * std::min(inner, kColumns)));
  parallel_for(ragged.components * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % blocks * kColumns;
      body(task / blocks, first, std::min(kColumns, inner - first));
    }
  });
}

/// Columns from `first` on of the rows from row `begin` of the components on.
inline reduce::ColumnsAt columns_at(const RaggedView& ragged, int64_t inner, int64_t begin, int64_t first) {
  if (ragged.order != nullptr) return {first, inner, ragged.order + begin};
  return {begin * inner + first, inner};
}

/// Elements [first, first + count) of a row of [rows, inner] values, as T: in place, or converted into `buffer`.
template <typename T>
const T* read_row(const View& view, int64_t inner, int64_t row, int64_t first, int64_t count, T* buffer) {
  const int64_t at = row * inner + first;
  if (view.dtype == dtype_of<T>) return view.ptr<T>() + at;
  simd::load_run(static_cast<const char*>(view.data) + at * item_size(view.dtype), view.dtype, 1, count, buffer);
  return buffer;
}

/// The same of `count` rows from `row` on.
template <typename T>
reduce::Columns<const T> read_rows(const View& view, int64_t inner, int64_t row, int64_t count, int64_t first, int64_t columns,
                                   T* buffer) {
  if (view.dtype == dtype_of<T>) return {view.ptr<T>() + row * inner + first, inner};
  if (columns == inner) return {read_row(view, inner, row, 0, count * inner, buffer), inner};
  for (int64_t r = 0; r < count; ++r) read_row(view, inner, row + r, first, columns, buffer + r * columns);
  return {buffer, columns};
}

template <typename T>
void write_row(const View& view, int64_t inner, int64_t row, int64_t first, int64_t count, const T* values) {
  simd::store_run(values, count, static_cast<char*>(view.data) + (row * inner + first) * item_size(view.dtype), view.dtype, 1);
}

/// Prefetches a row some rows after row i if rows are not contiguous: the hardware prefetcher cannot predict them.
inline void prefetch_row(const View& view, const RaggedView& ragged, int64_t inner, int64_t i, int64_t first, int64_t count) {
  constexpr int64_t kAhead = 4096, kLine = 64;  // bytes
  const int64_t row_bytes = count * item_size(view.dtype), later = i + 1 + kAhead / row_bytes;
  if (later >= ragged.rows()) return;
  const auto* const from = static_cast<const char*>(view.data) + (ragged.row(later) * inner + first) * item_size(view.dtype);
  for (int64_t byte = 0; byte < std::min(row_bytes, kAhead / 4); byte += kLine) __builtin_prefetch(from + byte);
}

/// Elements [first, first + count) of row i of the components, or, where a row is a single element (inner = 1), of `count` rows
/// from i on, as T: in place, or in `buffer`.
template <typename T>
const T* read_run(const View& view, const RaggedView& ragged, int64_t inner, int64_t i, int64_t first, int64_t count, T* buffer) {
  if (ragged.order == nullptr) return read_row(view, inner, i, first, count, buffer);
  if (inner > 1) {
    prefetch_row(view, ragged, inner, i, first, count);
    return read_row(view, inner, ragged.row(i), first, count, buffer);
  }
  for (int64_t k = 0; k < count; ++k) {
    const int64_t row = ragged.row(i + k);
    if (view.dtype == dtype_of<T>)
      buffer[k] = view.ptr<T>()[row];
    else
      read_row(view, 1, row, 0, 1, buffer + k);
  }
  return buffer;
}

template <typename T>
void write_run(const View& view, const RaggedView& ragged, int64_t inner, int64_t i, int64_t first, int64_t count,
               const T* values) {
  if (inner > 1 || ragged.order == nullptr) return write_row(view, inner, ragged.row(i), first, count, values);
  for (int64_t k = 0; k < count; ++k) write_row(view, 1, ragged.row(i + k), 0, 1, values + k);
}

/// f(TypeTag<float or double>{}), for kernels of floating values.
template <typename F>
void visit_real(DType dtype, F&& f) {
  if (dtype == DType::float64)
    f(TypeTag<double>{});
  else
    f(TypeTag<float>{});
}

}  // namespace deckle::kernels::cpu::segment
