// Products that no engine is called for.                                             c[m, n] = a[m, k] b[k, n]
//
//   small     up to kSmall multiplications, or k <= kFlat: an engine's call, its search for a compiled tile and the signals that
//             wait meanwhile take many times an 8 x 8 product's time
//   a vector  m = 1 or n = 1: bounded by reading the matrix, 4 bytes for 2 FLOPs (vector_product.h); an engine packs it first,
//             and so reads it twice; halves are widened on the way
//   flat      k <= kFlat, of halves: bounded by writing c

#include "deckle/kernels/cpu/matmul/direct.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/matmul/loops.h"
#include "deckle/kernels/cpu/matmul/vector_product.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/halves.h"

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr int64_t kSmall = 32768;  // multiplications
constexpr int64_t kFlat = 4;       // of k: bounded by writing c

template <typename T>
struct Factors {
  const T* data;
  int64_t rows, cols, row_stride, col_stride;

  explicit Factors(const Matrix& matrix, int64_t offset = 0)
      : data(static_cast<const T*>(matrix.data) + offset),
        rows(matrix.rows),
        cols(matrix.cols),
        row_stride(matrix.row_stride),
        col_stride(matrix.col_stride) {}
};

template <typename T>
void add_bias(const Product& product, int64_t rows, T* c) {
  if (product.bias == nullptr) return;
  const T* const bias = static_cast<const T*>(product.bias);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < product.b.cols; ++j) c[i * product.leading() + j] += bias[j * product.bias_stride];
  }
}

/// Rows [begin, end) of one product.
template <typename T>
void small_rows(const Factors<T>& a, const Factors<T>& b, int64_t begin, int64_t end, T* c, int64_t c_row) {
  const VectorLoops<T, T>& loops = product_loops().vector_loops<T, T>();
  Sums<T>* const sums = product_loops().sums<T>();
  const int64_t k = a.cols, n = b.cols;
  const T* const rows = a.data + begin * a.row_stride;
  if (n == 1 && a.col_stride == 1 && b.row_stride == 1) return loops.dots(end - begin, k, rows, a.row_stride, b.data, c, c_row);
  if (n == 1 && a.row_stride == 1 && c_row == 1)
    return sums(1, end - begin, k, b.data, 0, b.row_stride, rows, a.col_stride, c, 0);
  if (b.col_stride == 1 || n == 1)
    return sums(end - begin, n, k, rows, a.row_stride, a.col_stride, b.data, b.row_stride, c, c_row);
  if (b.row_stride == 1 && a.col_stride == 1 && end - begin <= 2) {
    for (int64_t i = 0; i < end - begin; ++i) loops.dots(n, k, b.data, b.col_stride, rows + i * a.row_stride, c + i * c_row, 1);
    return;
  }
  Scratch scratch;
  T* const packed = scratch.take<T>(k * n);
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) packed[p * n + j] = b.data[p * b.row_stride + j * b.col_stride];
  }
  sums(end - begin, n, k, rows, a.row_stride, a.col_stride, packed, n, c, c_row);
}

template <typename T>
void multiply_small(const Product& product) {
  const int64_t m = product.a.rows, n = product.b.cols, k = product.a.cols, items = product.items(), row = product.leading();
  const int64_t step = std::clamp<int64_t>(kRange / (n * k), 4, m + 4), steps = (m + step - 1) / step;
  parallel_for(items * steps, std::max<int64_t>(1, kRange / (std::min(step, m) * n * k)), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t item = task / steps, first = task % steps * step, last = std::min(first + step, m);
      const auto at = product.offsets(item);
      T* const c = static_cast<T*>(product.c) + (item * m + first) * row;
      small_rows(Factors<T>(product.a, at.a), Factors<T>(product.b, at.b), first, last, c, row);
      add_bias(product, last - first, c);
    }
  });
}

template <typename X, typename T>
bool multiply_vector(const Product& product) {
  const Factors<X> a(product.a), b(product.b);
  X* const c = static_cast<X*>(product.c);
  VectorProduct<X, T> work =
      b.cols == 1
          ? VectorProduct<X, T>{a.data, a.rows, a.cols, a.row_stride, a.col_stride, b.data, b.row_stride, c, product.leading()}
          : VectorProduct<X, T>{b.data, b.cols, b.rows, b.col_stride, b.row_stride, a.data, a.col_stride, c, 1};
  if (!work.along_k() && !work.along_results()) return false;
  if constexpr (!std::is_same_v<X, T>) {
    work.bias = static_cast<const X*>(product.bias);
    work.bias_stride = b.cols == 1 ? 0 : product.bias_stride;
  }
  work();
  if constexpr (std::is_same_v<X, T>) add_bias(product, a.rows, c);
  return true;
}

template <typename T>
bool multiply_typed(const Product& product) {
  const int64_t m = product.a.rows, n = product.b.cols, k = product.a.cols;
  if (m <= kSmall && n <= kSmall && k <= kSmall && m * n <= kSmall && m * n * k <= kSmall)
    return multiply_small<T>(product), true;
  if ((m == 1 || n == 1) && product.batch.empty()) return multiply_vector<T, T>(product);
  if (k <= kFlat && product.b.col_stride == 1) return multiply_small<T>(product), true;
  return false;
}

/// Few products of halves an element of c: sums of floats, some rows of them at a time, which are then rounded.
template <typename H>
void multiply_flat(const Product& product) {
  constexpr int64_t kRows = 32, kColumns = 1024, kTileRows = 4;
  const int64_t m = product.a.rows, n = product.b.cols, k = product.a.cols;
  const Factors<H> a(product.a), b(product.b);
  const int64_t row_blocks = (m + kRows - 1) / kRows, blocks = row_blocks * ((n + kColumns - 1) / kColumns);
  const int64_t multiplications = std::min(m, kRows) * std::min(n, kColumns) * k;
  parallel_for(blocks, std::max<int64_t>(1, kRange / 4 / multiplications), [&](int64_t begin, int64_t end) {
    Scratch scratch;
    float* const right = scratch.take<float>((k + 1) * kColumns);
    float* const bias = right + k * kColumns;
    float tile[kTileRows * kColumns], left[kTileRows * kFlat];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t column = block / row_blocks * kColumns, columns = std::min(kColumns, n - column);
      const int64_t first = block % row_blocks * kRows, last = std::min(first + kRows, m);
      for (int64_t p = 0; p < k; ++p)
        simd::load_run(b.data + p * b.row_stride + column * b.col_stride, dtype_of<H>, b.col_stride, columns,
                       right + p * columns);
      if (product.bias != nullptr)
        simd::load_run(static_cast<const H*>(product.bias) + column * product.bias_stride, dtype_of<H>, product.bias_stride,
                       columns, bias);
      for (int64_t row = first; row < last; row += kTileRows) {
        const int64_t rows = std::min(kTileRows, last - row);
        for (int64_t r = 0; r < rows; ++r)
          simd::load_run(a.data + (row + r) * a.row_stride, dtype_of<H>, a.col_stride, k, left + r * k);
        product_loops().sums<float>()(rows, columns, k, left, k, 1, right, columns, tile, columns);
        for (int64_t r = 0; r < rows; ++r) {
          float* const sums = tile + r * columns;
          for (int64_t j = 0; product.bias != nullptr && j < columns; ++j) sums[j] += bias[j];
          simd::narrow(sums, static_cast<H*>(product.c) + (row + r) * product.leading() + column, columns);
        }
      }
    }
  });
}

template <typename H>
bool multiply_halves(const Product& product) {
  if (!product.batch.empty()) return false;
  if (product.a.rows == 1 || product.b.cols == 1) return multiply_vector<H, float>(product);
  if (product.a.cols <= kFlat) return multiply_flat<H>(product), true;
  return false;
}

}  // namespace

bool multiply_directly(const Product& product) {
  if (product.a_blocks != nullptr) return false;
  switch (product.a.dtype) {
    case DType::float32:
      return multiply_typed<float>(product);
    case DType::float64:
      return multiply_typed<double>(product);
    case DType::bfloat16:
      return multiply_halves<bfloat16>(product);
    default:
      return multiply_halves<float16>(product);
  }
}

}  // namespace deckle::kernels::cpu::matmul
