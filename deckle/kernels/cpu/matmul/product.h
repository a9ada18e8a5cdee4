#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// A batch dim of a product; a stride of 0 broadcasts that operand.
struct BatchDim {
  int64_t size = 1;
  int64_t a_stride = 0;
  int64_t b_stride = 0;
};

/// Block [row, row + rows) x [col, col + cols) of a matrix that is not in memory as a whole; it may be made in `scratch`.
using Blocks = std::function<Matrix(int64_t row, int64_t rows, int64_t col, int64_t cols, Scratch& scratch)>;

/// c[i] = a[i] * b[i] (+ bias) for every index i of the batch dims. a: [M, K], b: [K, N], any strides; c: dense [batch.., M, N]
/// of the same dtype, or rows `c_leading` apart; bias: [N], any stride, or nullptr data. Bit-equal for any number of threads. c
/// overlaps none of the inputs.
struct Product {
  Matrix a;  // without data, `a_blocks` gives its blocks
  Matrix b;
  std::span<const BatchDim> batch = {};
  const void* bias = nullptr;
  int64_t bias_stride = 1;
  void* c = nullptr;
  int64_t c_leading = 0;             // 0: N
  const Blocks* a_blocks = nullptr;  // called from several threads
  int64_t chunk = 0;                 // columns of a that one step takes; 0: the usual

  int64_t leading() const { return c_leading != 0 ? c_leading : b.cols; }
  int64_t items() const {
    int64_t count = 1;
    for (const BatchDim& dim : batch) count *= dim.size;
    return count;
  }
  /// Where a[item] and b[item] begin, in elements.
  struct Offsets {
    int64_t a = 0, b = 0;
  };
  Offsets offsets(int64_t item) const {
    Offsets at;
    for (size_t dim = batch.size(); dim-- > 0; item /= batch[dim].size) {
      at.a += item % batch[dim].size * batch[dim].a_stride;
      at.b += item % batch[dim].size * batch[dim].b_stride;
    }
    return at;
  }
};

void multiply(const Product& product);

/// Many products of one dtype and any shapes, partitioned into tiles and scheduled together. Each has batch 1 and no bias.
void multiply_each(std::span<const Product> products);

/// Dims `row` and `col` of a view as a matrix.
Matrix matrix_of(const View& view, int row, int col);

}  // namespace deckle::kernels::cpu::matmul
