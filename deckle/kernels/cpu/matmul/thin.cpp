// Products of a matrix whose rows lie along k and a thin one, of a vector or two a row.          c[r, i] = x[r, k] y[k, i]
//
// Either c or its transpose, where a is the thin one. An engine packs x, which is read once here, as it lies: a block of rows and
// kDepth of k at a time, so that as much of y stays in the first cache. Microseconds of one thread of an Emerald Rapids, engines'
// and these, medians of nine in turns:
//   float32 16 x 1,024 x 1,024, both transposed  1,426   603   16 x 100 x 100  7.6  5.1   1,024 x 1,024 x 16  391  502
//   float64 16 x 1,024 x 1,024, both transposed  1,561   676                              1,024 x 1,024 x 16  1,386  826
#include "deckle/kernels/cpu/matmul/thin.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/matmul/loops.h"
#include "deckle/kernels/cpu/matmul/vector_product.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr int64_t kThinBytes = 32, kMostThin = 16;  // of a row of y in T at least; elements at most
constexpr int64_t kLeastRows = 64, kLeastDepth = 32;
constexpr int64_t kRows = 64, kDepth = 256;  // of x, of a step

template <typename T>
struct ThinProduct {
  const T* x;
  int64_t rows, k, row_stride;
  const T* y;
  int64_t y_row, y_col, thin;
  T* c;
  int64_t leading;
  bool transposed;  // c is [thin, rows]
  const T* bias;
  int64_t bias_stride;

  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

  void operator()() const {
    Scratch scratch;
    T* const packed = scratch.take<T>(k * thin);
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < thin; ++i) packed[p * thin + i] = y[p * y_row + i * y_col];
    }
    Sums<T>* const loop = product_loops().sums<T>();
    const int64_t blocks = (rows + kRows - 1) / kRows;
    parallel_for(blocks, std::max<int64_t>(1, kRange / (std::min(rows, kRows) * k * thin)), [&](int64_t begin, int64_t end) {
      T tile[kRows * kMostThin], part[kRows * kMostThin];
      for (int64_t block = begin; block < end; ++block) {
        const int64_t row = block * kRows, count = std::min(kRows, rows - row);
        for (int64_t p = 0; p < k; p += kDepth) {
          loop(count, thin, std::min(kDepth, k - p), x + row * row_stride + p, row_stride, 1, packed + p * thin, thin,
               p == 0 ? tile : part, thin);
          for (int64_t i = 0; p != 0 && i < count * thin; ++i) tile[i] += part[i];
        }
        store(row, count, tile);
      }
    });
  }

 private:
  void store(int64_t row, int64_t count, T* tile) const {
    if (!transposed) {
      if (bias != nullptr) {
        T added[kMostThin];
        simd::load_run(bias, dtype_of<T>, bias_stride, thin, added);
        for (int64_t r = 0; r < count; ++r) {
          for (int64_t i = 0; i < thin; ++i) tile[r * thin + i] += added[i];
        }
      }
      for (int64_t r = 0; r < count; ++r) simd::store_run(tile + r * thin, thin, c + (row + r) * leading, dtype_of<T>, 1);
      return;
    }
    T turned[kMostThin * kRows], added[kRows];
    simd::transpose(reinterpret_cast<const Bits*>(tile), thin, count, thin, reinterpret_cast<Bits*>(turned), kRows);
    if (bias != nullptr) simd::load_run(bias + row * bias_stride, dtype_of<T>, bias_stride, count, added);
    for (int64_t i = 0; i < thin; ++i) {
      T* const sums = turned + i * kRows;
      for (int64_t r = 0; bias != nullptr && r < count; ++r) sums[r] += added[r];
      simd::store_run(sums, count, c + i * leading + row, dtype_of<T>, 1);
    }
  }
};

template <typename T>
bool multiply_typed(const Product& product) {
  const Matrix &a = product.a, &b = product.b;
  const auto fits = [](int64_t thin, int64_t rows) {
    return thin * static_cast<int64_t>(sizeof(T)) >= kThinBytes && thin <= kMostThin && rows >= kLeastRows;
  };
  const auto *const from_a = static_cast<const T*>(a.data), *const from_b = static_cast<const T*>(b.data),
                    *const bias = static_cast<const T*>(product.bias);
  T* const c = static_cast<T*>(product.c);
  const int64_t k = a.cols, leading = product.leading();
  // Of float32 engines multiply few columns faster.
  if (sizeof(T) == 8 && fits(b.cols, a.rows) && a.col_stride == 1) {
    ThinProduct<T>{from_a, a.rows, k,       a.row_stride, from_b, b.row_stride,       b.col_stride,
                   b.cols, c,      leading, false,        bias,   product.bias_stride}();
    return true;
  }
  if (fits(a.rows, b.cols) && b.row_stride == 1) {
    ThinProduct<T>{from_b, b.cols, k,       b.col_stride, from_a, a.col_stride,       a.row_stride,
                   a.rows, c,      leading, true,         bias,   product.bias_stride}();
    return true;
  }
  return false;
}

}  // namespace

bool multiply_thin(const Product& product) {
  if (product.a_blocks != nullptr || !product.batch.empty() || product.a.cols < kLeastDepth) return false;
  if (product.a.dtype == DType::float32) return multiply_typed<float>(product);
  return product.a.dtype == DType::float64 && multiply_typed<double>(product);
}

}  // namespace deckle::kernels::cpu::matmul
