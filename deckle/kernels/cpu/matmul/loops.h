#pragma once

#include <cstdint>
#include <tuple>

#include "deckle/base/half.h"

namespace deckle::kernels::cpu::matmul {

/// c[i, j] = the sum over p < k of a[i a_row + p a_col] b[p b_row + j], for j < n. Integers wrap around, here and below.
template <typename T>
using Sums = void(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, T* c,
                  int64_t c_row);

/// c[r c_stride] = row r of x, of k elements, times y.
template <typename X, typename T>
using Dots = void(int64_t rows, int64_t k, const X* x, int64_t stride, const T* y, T* c, int64_t c_stride);

/// c[j] = the sum over p < k of a[p a_col] b[p b_row + j], for j < n.
template <typename X, typename T>
using SumRow = void(int64_t n, int64_t k, const T* a, int64_t a_col, const X* b, int64_t b_row, T* c);

/// Of a matrix times a vector: rows of elements stored as X, multiplied in T.
template <typename X, typename T>
struct VectorLoops {
  Dots<X, T>* dots;
  SumRow<X, T>* sum_row;
};

struct LoopTable {
  std::tuple<VectorLoops<float, float>, VectorLoops<double, double>, VectorLoops<bfloat16, float>, VectorLoops<float16, float>,
             VectorLoops<int64_t, int64_t>, VectorLoops<int32_t, int32_t>, VectorLoops<uint8_t, int32_t>>
      vectors;
  std::tuple<Sums<float>*, Sums<double>*, Sums<int64_t>*, Sums<int32_t>*> matrices;

  template <typename X, typename T>
  const VectorLoops<X, T>& vector_loops() const {
    return std::get<VectorLoops<X, T>>(vectors);
  }
  template <typename T>
  Sums<T>* sums() const {
    return std::get<Sums<T>*>(matrices);
  }
};

/// For the strongest allowed instruction set.
const LoopTable& product_loops();

}  // namespace deckle::kernels::cpu::matmul
