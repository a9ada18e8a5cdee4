// argmax and argmin of each row, and the extreme value.          Reads every element once; a NaN wins
//
// Ties go to the first element. Long rows are split across threads; columns side by side have functions of their own. Instances:
// float (float32 and the halves), double, int64_t (integers, bool).
#include <algorithm>
#include <optional>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/arg_columns.h"
#include "deckle/kernels/cpu/reduce/arg_rows.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"

namespace deckle::kernels::cpu {
namespace {

/// The positions in rows that are longer than a piece: the first of the best among the pieces' results.
template <bool kLargest, typename T>
void find_in_pieces(const View& self, const reduce::Layout& layout, T* best, int64_t* indices) {
  const int64_t pieces = (layout.length + reduce::kPiece - 1) / reduce::kPiece;
  Scratch scratch;
  T* const candidates = scratch.take<T>(layout.rows * pieces);
  auto* const places = scratch.take<int64_t>(layout.rows * pieces);
  parallel_for(layout.rows * pieces, 1, [&](int64_t begin, int64_t end) {
    Scratch own;
    T* const x = own.take<T>(reduce::kPiece);
    for (int64_t item = begin; item < end; ++item) {
      const int64_t from = item % pieces * reduce::kPiece, n = std::min(reduce::kPiece, layout.length - from);
      reduce::gather_rows(self, layout, item / pieces, 1, from, n, x);
      int64_t at = 0;
      reduce::arg_extrema_of_rows(kLargest, 1, n, x, &at);
      candidates[item] = x[at];
      places[item] = from + at;
    }
  });
  reduce::arg_extrema_of_rows(kLargest, layout.rows, pieces, candidates, indices);
  for (int64_t row = 0; row < layout.rows; ++row) {
    const int64_t item = row * pieces + indices[row];
    best[row] = candidates[item];
    indices[row] = places[item];
  }
}

/// Of columns that lie side by side; `values` may be null. False, and nothing is done, unless they do and are not too long.
template <bool kLargest, typename T>
bool find_in_columns(const View& self, const reduce::Layout& layout, const View* values, int64_t* indices) {
  using Extrema = reduce::ColumnExtrema<kLargest, T>;
  if (!reduce::lies_in_columns(layout) || layout.length > reduce::kPiece) return false;
  const Extrema extrema;
  reduce::for_column_tiles({&layout}, Extrema::kMost, [&](int64_t, auto tiles) {
    tiles([&](int64_t first, int64_t n) {
      T best[Extrema::kMost];
      extrema.find(self, reduce::columns_at(layout, first), layout.length, n, best, indices + first);
      if (values == nullptr) return;
      simd::store_run(best, n, static_cast<char*>(values->data) + first * item_size(values->dtype), values->dtype, 1);
    });
  });
  return true;
}

/// `values` may be undefined. `all`: the whole view is one row.
template <bool kLargest>
void find(const View& self, std::optional<int64_t> dim, const View* values, const View& indices) {
  View flat = self;
  if (!dim) {  // contiguous by contract
    flat.ndim = 1;
    flat.sizes[0] = self.numel();
    flat.strides[0] = 1;
  }
  simd::visit_compute(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const reduce::Layout layout(flat, dim.value_or(0));
    if (find_in_columns<kLargest, T>(flat, layout, values, indices.ptr<int64_t>())) return;
    const auto store = [&](int64_t first, int64_t rows, const T* best) {
      if (values == nullptr) return;
      char* const to = static_cast<char*>(values->data) + first * item_size(values->dtype);
      simd::store_run(best, rows, to, values->dtype, 1);
    };
    if (layout.length > reduce::kPiece) {
      Scratch scratch;
      T* const best = scratch.take<T>(layout.rows);
      find_in_pieces<kLargest, T>(flat, layout, best, indices.ptr<int64_t>());
      return store(0, layout.rows, best);
    }
    reduce::by_rows<T>(std::array<const View*, 1>{&flat}, std::array<const View*, 0>{}, dim.value_or(0),
                       [&](int64_t first, int64_t rows, int64_t n, const auto& x, const auto&) {
                         int64_t* const places = indices.ptr<int64_t>() + first;
                         reduce::arg_extrema_of_rows(kLargest, rows, n, x[0], places);
                         if (values == nullptr) return;
                         Scratch scratch;
                         T* const best = scratch.take<T>(rows);
                         for (int64_t r = 0; r < rows; ++r) best[r] = x[0][r * n + places[r]];
                         store(first, rows, best);
                       });
  });
}

}  // namespace

void argmax(const Context&, const View& self, std::optional<int64_t> dim, bool, const View& result) {
  find<true>(self, dim, nullptr, result);
}
void argmin(const Context&, const View& self, std::optional<int64_t> dim, bool, const View& result) {
  find<false>(self, dim, nullptr, result);
}
void max(const Context&, const View& self, int64_t dim, bool, const View& values, const View& indices) {
  find<true>(self, dim, &values, indices);
}
void min(const Context&, const View& self, int64_t dim, bool, const View& values, const View& indices) {
  find<false>(self, dim, &values, indices);
}

}  // namespace deckle::kernels::cpu
