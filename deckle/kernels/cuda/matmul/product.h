#pragma once

#include <cstdint>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda::matmul {

/// A matrix, or as many as the product's batch has: element (i, j) of matrix b at b * batch + i * row + j * column.
struct Matrices {
  void* data = nullptr;
  int64_t rows = 0, columns = 0;
  int64_t row = 0, column = 0, batch = 0;  // strides in elements

  Matrices transpose() const { return {data, columns, rows, column, row, batch}; }
};

/// result = a b, matrix by matrix; plus `bias`, a number for each column, if given (of float32 and halves), and plus what
/// `result` holds, if it accumulates. All of one floating dtype. Rows or columns of
/// a and b are contiguous, or are made so; result is row-major. float32 is computed in float32, not in TF32.
void product(const Context& context, DType dtype, const Matrices& a, const Matrices& b, const Matrices& result, int64_t batch,
             const void* bias = nullptr, bool accumulates = false);

/// result = a b of one integer dtype, modulo its range; any strides of a and b.
void integer_product(const Context& context, DType dtype, const Matrices& a, const Matrices& b, const Matrices& result);

}  // namespace deckle::kernels::cuda::matmul
