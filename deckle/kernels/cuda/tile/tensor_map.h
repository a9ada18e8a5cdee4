// Tensor maps: how the copy engine sees a [batch, row, head, column] tensor of 16-bit values.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace deckle::kernels::cuda::tile {

struct TensorMapShape {
  void* data;
  int64_t batch_stride, row_stride, head_stride;  // elements
  int64_t batch, rows, heads, columns;
  bool ragged;
};

/// A map of boxes of `box_rows` rows x 64 columns of one head. Dense coordinates: (column, row, head, batch).
///
/// Ragged: the row dim is described twice with one stride, each time with all `rows` (at least one). Row i of the sequence at
/// [start, start + length) has coordinates (column, rows - length + i, head, start + length): the address is that of row start +
/// i, and rows at or past the end lie outside the map, so the hardware reads them as zeros and drops their stores. Rows before
/// the start are not clipped. The map's base lies as far before the tensor as the tensor is long; a tensor at an address below
/// its length is refused.
///
/// Strides of dims with more than one element must be positive. Throws std::runtime_error with the failing shape if the driver
/// refuses it. `map` is the memory of a CUtensorMap, of any alignment: compilers place temporaries of that type, which asks for
/// 128 bytes, at less, and with AVX others store to them as if they were aligned.
void make_tensor_map(const TensorMapShape& shape, int box_rows, void* map);

inline CUtensorMap make_tensor_map(const TensorMapShape& shape, int box_rows) {
  CUtensorMap map;
  make_tensor_map(shape, box_rows, &map);
  return map;
}

}  // namespace deckle::kernels::cuda::tile
