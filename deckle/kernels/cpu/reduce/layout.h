#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::reduce {

/// One operand's dims in two groups: kept ones, in order, and reduced ones; adjacent ones that are contiguous are merged. A row
/// is the elements of one index of the kept dims.
struct Layout {
  struct Dims {
    int count = 0;
    int64_t sizes[kMaxDims] = {};
    int64_t strides[kMaxDims] = {};

    int64_t numel() const;
    /// Offset, in elements, of the element with row-major number `index`.
    int64_t offset(int64_t index) const;
  };
  Dims kept, reduced;
  int64_t rows = 1;    // product of the kept sizes
  int64_t length = 1;  // elements per row

  /// Dims `dims` of the view are reduced; none means all of them. In any order, the elements of a row are taken as they lie in
  /// memory, so that more dims merge: for reductions that ask for no order.
  enum class Order { given, any };
  Layout(const View& view, std::span<const int64_t> dims, Order order = Order::given);
  Layout(const View& view, int64_t dim) : Layout(view, std::span<const int64_t>(&dim, view.ndim > 0 ? 1 : 0)) {}

  /// The whole operand is contiguous, row after row.
  bool dense_rows() const;
};

/// Copies elements [from, from + count) of rows [row, row + rows) to or from a block of T with `count` elements per row,
/// converting. If a kept dim is the dense one, whole cache lines of neighbouring rows are moved together.
template <typename T>
void gather_rows(const View& view, const Layout& layout, int64_t row, int64_t rows, int64_t from, int64_t count, T* block);
template <typename T>
void scatter_rows(const T* block, const View& view, const Layout& layout, int64_t row, int64_t rows);

}  // namespace deckle::kernels::cpu::reduce
