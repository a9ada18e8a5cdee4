// Products that no engine is called for.                                             c[m, n] = a[m, k] b[k, n]
//
//   small     up to kSmall multiplications, or k <= kFlat: an engine's call, its search for a compiled tile and the signals that
//             wait meanwhile take many times an 8 x 8 product's time
//   a vector  m = 1 or n = 1: bounded by reading the matrix, 4 bytes for 2 FLOPs; an engine packs it first, and so reads it
//   twice;
//             bfloat16 is widened on the way
//   integers  for which there is no engine
//
// For a vector k is cut at kChunk, whose partial sums are added in double: the partition depends on shapes alone. Where the
// matrix's rows lie along the results it is cut more often, at kDepth, and the results less: so each step reads long runs, which
// the processor fetches ahead, and not a few lines of each page.

#include "deckle/kernels/cpu/matmul/direct.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/matmul/loops.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr int64_t kSmall = 32768;               // multiplications
constexpr int64_t kFlat = 4;                    // of k: bounded by writing c
constexpr int64_t kChunk = 1024;                // of k
constexpr int64_t kRange = 131072;              // multiplications per parallel range: 5 us or more
constexpr int64_t kRows = 16, kColumns = 1024;  // results of a step
constexpr int64_t kDepth = 128;                 // of k, of a step along the results

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
void small_rows(const Loops<T>& functions, const Factors<T>& a, const Factors<T>& b, int64_t begin, int64_t end, T* c,
                int64_t c_row) {
  const int64_t k = a.cols, n = b.cols;
  const T* const rows = a.data + begin * a.row_stride;
  if (n == 1 && a.col_stride == 1 && b.row_stride == 1)
    return functions.dots(end - begin, k, rows, a.row_stride, b.data, c, c_row);
  if (n == 1 && a.row_stride == 1 && c_row == 1)
    return functions.sums(1, end - begin, k, b.data, 0, b.row_stride, rows, a.col_stride, c, 0);
  if (b.col_stride == 1 || n == 1)
    return functions.sums(end - begin, n, k, rows, a.row_stride, a.col_stride, b.data, b.row_stride, c, c_row);
  if (b.row_stride == 1 && a.col_stride == 1 && end - begin <= 2) {
    for (int64_t i = 0; i < end - begin; ++i)
      functions.dots(n, k, b.data, b.col_stride, rows + i * a.row_stride, c + i * c_row, 1);
    return;
  }
  Scratch scratch;
  T* const packed = scratch.take<T>(k * n);
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) packed[p * n + j] = b.data[p * b.row_stride + j * b.col_stride];
  }
  functions.sums(end - begin, n, k, rows, a.row_stride, a.col_stride, packed, n, c, c_row);
}

template <typename T>
void multiply_small(const Product& product) {
  const Loops<T> functions = product_loops().real.template of<T>();
  const int64_t m = product.a.rows, n = product.b.cols, k = product.a.cols, items = product.items(), row = product.leading();
  const int64_t step = std::clamp<int64_t>(kRange / (n * k), 4, m + 4), steps = (m + step - 1) / step;
  parallel_for(items * steps, std::max<int64_t>(1, kRange / (std::min(step, m) * n * k)), [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t item = task / steps, first = task % steps * step, last = std::min(first + step, m);
      int64_t a_offset = 0, b_offset = 0, index = item;
      for (size_t dim = product.batch.size(); dim-- > 0; index /= product.batch[dim].size) {
        a_offset += index % product.batch[dim].size * product.batch[dim].a_stride;
        b_offset += index % product.batch[dim].size * product.batch[dim].b_stride;
      }
      T* const c = static_cast<T*>(product.c) + (item * m + first) * row;
      small_rows(functions, Factors<T>(product.a, a_offset), Factors<T>(product.b, b_offset), first, last, c, row);
      add_bias(product, last - first, c);
    }
  });
}

/// results[r stride] = the sum over p of matrix[r row_stride + p k_stride] vector[p vector_stride], where rows of the matrix, of
/// X, are multiplied in T.
template <typename X, typename T>
struct VectorProduct {
  const X* matrix;
  int64_t results, k, row_stride, k_stride;
  const X* vector;
  int64_t vector_stride;
  X* to;
  int64_t stride;
  const X* bias = nullptr;  // of bfloat16: added before the sums are rounded
  int64_t bias_stride = 0;

  static constexpr bool kHalf = !std::is_same_v<X, T>;

  bool along_k() const { return k_stride == 1; }
  bool along_results() const { return row_stride == 1; }

  void operator()() const {
    Dots<X, T>* dots;
    SumRow<X, T>* sum_row;
    if constexpr (kHalf) {
      dots = product_loops().half_dots;
      sum_row = product_loops().half_sum_row;
    } else {
      dots = product_loops().real.template of<T>().dots;
      sum_row = product_loops().real.template of<T>().sum_row;
    }
    const int64_t chunk_size = along_k() ? kChunk : kDepth, chunks = (k + chunk_size - 1) / chunk_size;
    const int64_t block = along_k() ? kRows : kColumns, blocks = (results + block - 1) / block;
    Scratch scratch;
    const T* const factors = dense_vector(scratch);
    // Of one chunk where results lie side by side, they are written at once.
    T* partial = nullptr;
    bool direct = false;
    if constexpr (!kHalf) {
      direct = chunks == 1 && (along_k() || stride == 1);
      partial = to;
    }
    if (!direct) partial = scratch.take<T>(chunks * results);
    const int64_t apart = direct ? stride : 1;
    const int64_t multiplications = std::min(block, results) * std::min(k, chunk_size);
    parallel_for(blocks * chunks, std::max<int64_t>(1, kRange / multiplications), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task % blocks * block, count = std::min(block, results - first);
        const int64_t chunk = task / blocks, p = chunk * chunk_size, depth = std::min(chunk_size, k - p);
        const X* const part = matrix + first * row_stride + p * k_stride;
        T* const sums = partial + (chunk * results + first) * apart;
        if (along_k())
          dots(count, depth, part, row_stride, factors + p, sums, apart);
        else
          sum_row(count, depth, factors + p, 1, part, k_stride, sums);
      }
    });
    if (!direct) add_chunks(partial, chunks);
  }

  const T* dense_vector(Scratch& scratch) const {
    if constexpr (!kHalf) {
      if (vector_stride == 1) return vector;
    }
    T* const dense = scratch.take<T>(k);
    simd::load_run(vector, kHalf ? DType::bfloat16 : dtype_of<T>, vector_stride, k, dense);
    return dense;
  }

  void add_chunks(const T* partial, int64_t chunks) const {
    constexpr int64_t kBlock = 256;
    const int64_t blocks = (results + kBlock - 1) / kBlock;
    parallel_for(blocks, std::max<int64_t>(1, kRange / (kBlock * chunks)), [&](int64_t begin, int64_t end) {
      double sums[kBlock];
      for (int64_t first = begin * kBlock; first < std::min(end * kBlock, results); first += kBlock) {
        const int64_t count = std::min(kBlock, results - first);
        if (bias != nullptr)
          simd::load_run(bias + first * bias_stride, DType::bfloat16, bias_stride, count, sums);
        else
          std::fill_n(sums, count, 0.0);
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
          const T* const from = partial + chunk * results + first;
          for (int64_t r = 0; r < count; ++r) sums[r] += static_cast<double>(from[r]);
        }
        simd::store_run(sums, count, to + first * stride, kHalf ? DType::bfloat16 : dtype_of<T>, stride);
      }
    });
  }
};

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

/// results[r] = the sum over p < k of matrix[r row_stride + p k_stride] vector[p vector_stride], modulo 2^64: the matrix is read
/// once, as it lies.
void multiply_integer_vector(const int64_t* matrix, int64_t results, int64_t k, int64_t row_stride, int64_t k_stride,
                             const int64_t* vector, int64_t vector_stride, int64_t* to) {
  const auto at = [](const int64_t* from) { return static_cast<uint64_t>(*from); };
  const bool along_results = row_stride == 1 && k_stride != 1;
  const int64_t block = along_results ? kColumns : kRows, blocks = (results + block - 1) / block;
  parallel_for(blocks, std::max<int64_t>(1, kRange / (block * k + 1)), [&](int64_t begin, int64_t end) {
    uint64_t sums[kColumns];
    for (int64_t first = begin * block; first < std::min(end * block, results); first += block) {
      const int64_t count = std::min(block, results - first);
      std::fill_n(sums, count, uint64_t{0});
      const int64_t* const rows = matrix + first * row_stride;
      if (along_results) {
        for (int64_t p = 0; p < k; ++p) {
          const uint64_t factor = at(vector + p * vector_stride);
          for (int64_t r = 0; r < count; ++r) sums[r] += factor * at(rows + p * k_stride + r);
        }
      } else if (k_stride == 1 && vector_stride == 1) {
        for (int64_t r = 0; r < count; ++r) {
          for (int64_t p = 0; p < k; ++p) sums[r] += at(rows + r * row_stride + p) * at(vector + p);
        }
      } else {
        for (int64_t r = 0; r < count; ++r) {
          for (int64_t p = 0; p < k; ++p) sums[r] += at(rows + r * row_stride + p * k_stride) * at(vector + p * vector_stride);
        }
      }
      for (int64_t r = 0; r < count; ++r) to[first + r] = static_cast<int64_t>(sums[r]);
    }
  });
}

}  // namespace

void multiply_integers(const Matrix& a, const Matrix& b, int64_t* c) {
  constexpr int64_t kSide = 64;  // of a tile of c: a panel of b is packed for it, and stays in the second cache up to k = 1,024
  const int64_t m = a.rows, n = b.cols, k = a.cols, rows = (m + kSide - 1) / kSide, columns = (n + kSide - 1) / kSide;
  const Factors<int64_t> left(a), right(b);
  if (n == 1) return multiply_integer_vector(left.data, m, k, left.row_stride, left.col_stride, right.data, right.row_stride, c);
  if (m == 1) return multiply_integer_vector(right.data, n, k, right.col_stride, right.row_stride, left.data, left.col_stride, c);
  Sums<int64_t>* const sums = product_loops().integers;
  const int64_t multiplications = std::min(m, kSide) * std::min(n, kSide) * k + 1;
  parallel_for(rows * columns, std::max<int64_t>(1, kRange / multiplications), [&](int64_t begin, int64_t end) {
    Scratch scratch;
    int64_t* const panel = scratch.take<int64_t>(k * kSide);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t row = tile % rows * kSide, column = tile / rows * kSide, wide = std::min(kSide, n - column);
      if (tile == begin || row == 0) {
        for (int64_t p = 0; p < k; ++p) {
          for (int64_t j = 0; j < wide; ++j)
            panel[p * wide + j] = right.data[p * right.row_stride + (column + j) * right.col_stride];
        }
      }
      sums(std::min(kSide, m - row), wide, k, left.data + row * left.row_stride, left.row_stride, left.col_stride, panel, wide,
           c + row * n + column, n);
    }
  });
}

bool multiply_directly(const Product& product) {
  if (product.a_blocks != nullptr) return false;
  if (product.a.dtype == DType::float32) return multiply_typed<float>(product);
  if (product.a.dtype == DType::float64) return multiply_typed<double>(product);
  const bool is_vector = (product.a.rows == 1 || product.b.cols == 1) && product.batch.empty();
  if (product.a.dtype == DType::bfloat16 && is_vector) return multiply_vector<uint16_t, float>(product);
  return false;
}

}  // namespace deckle::kernels::cpu::matmul
