#pragma once

#include <cstdint>

#include "deckle/kernels/cpu/simd/table.h"

namespace deckle::kernels::cpu::matmul {

/// c[i, j] = the sum over p < k of a[i a_row + p a_col] b[p b_row + j], for j < n.
template <typename T>
using Sums = void(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, T* c,
                  int64_t c_row);

/// c[r c_stride] = row r of x, of k elements, times y.
template <typename X, typename T>
using Dots = void(int64_t rows, int64_t k, const X* x, int64_t stride, const T* y, T* c, int64_t c_stride);

/// c[j] = the sum over p < k of a[p a_col] b[p b_row + j], for j < n.
template <typename X, typename T>
using SumRow = void(int64_t n, int64_t k, const T* a, int64_t a_col, const X* b, int64_t b_row, T* c);

template <typename T>
struct Loops {
  Dots<T, T>* dots;
  Sums<T>* sums;
  SumRow<T, T>* sum_row;
};
struct LoopTable {
  RealTable<Loops> real;
  Sums<int64_t>* integers;
  // Of bfloat16, by its bits.
  Dots<uint16_t, float>* half_dots;
  SumRow<uint16_t, float>* half_sum_row;
};

/// For the strongest allowed instruction set.
LoopTable product_loops();

}  // namespace deckle::kernels::cpu::matmul
