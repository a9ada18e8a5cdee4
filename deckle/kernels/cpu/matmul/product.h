#pragma once

#include <cstdint>
#include <span>

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/matmul/matrix.h"

namespace deckle::kernels::cpu::matmul {

/// c[i] = a[i] * b[i] (+ bias) for i in [0, batch). a: [M, K], b: [K, N], any strides; c: dense [batch, M, N] of the same
/// dtype; bias: [N], any stride, or nullptr data. Bit-equal for any number of threads. c overlaps none of the inputs.
struct Product {
  Matrix a;
  Matrix b;
  int64_t batch = 1;
  int64_t a_batch_stride = 0;
  int64_t b_batch_stride = 0;
  const void* bias = nullptr;
  int64_t bias_stride = 1;
  void* c = nullptr;
};

void multiply(const Product& product);

/// Many products of one dtype and any shapes, cut into tiles and shared out together. Each has batch 1 and no bias.
void multiply_each(std::span<const Product> products);

/// Dims `row` and `col` of a view as a matrix.
Matrix matrix_of(const View& view, int row, int col);

}  // namespace deckle::kernels::cpu::matmul
