// Products of integers, for which there is no engine.                                      c[m, n] = a[m, k] b[k, n]
//
// A task multiplies up to kTaskRows rows of a with a panel of b, which is packed so that its rows lie side by side and stay in
// the second cache; a small b is packed once for all tasks, or read where it is. Rows of a are packed where they do not lie along
// k. uint8 is widened to int32 on the way: modulo 2^8 the sums are the same.
#include "deckle/kernels/cpu/matmul/integers.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/matmul/loops.h"
#include "deckle/kernels/cpu/matmul/vector_product.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr int64_t kPanel = 128;            // columns of b
constexpr int64_t kDepth = 512;            // of k, of a panel
constexpr int64_t kTileRows = 64;          // of a that are packed together
constexpr int64_t kTaskRows = 256;         // of a that share a panel
constexpr int64_t kSmallFactor = 1 << 16;  // elements of b
constexpr int64_t kTasks = 16;             // wanted
constexpr int64_t kSquare = 64;            // rows that are transposed together

/// to[r to_stride + c] = from[r row_stride + c col_stride].
template <typename X, typename T>
void pack(const X* from, int64_t row_stride, int64_t col_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  if constexpr (std::is_same_v<X, T>) {
    using Bits = std::make_unsigned_t<T>;
    if (col_stride == 1) {
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(to + r * to_stride, from + r * row_stride, static_cast<size_t>(cols) * sizeof(T));
      return;
    }
    if (row_stride == 1) {
      for (int64_t c = 0; c < cols; c += kSquare)
        simd::transpose(reinterpret_cast<const Bits*>(from + c * col_stride), col_stride, std::min(kSquare, cols - c), rows,
                        reinterpret_cast<Bits*>(to + c), to_stride);
      return;
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) to[r * to_stride + c] = static_cast<T>(from[r * row_stride + c * col_stride]);
  }
}

/// Of elements stored as X, multiplied in T.
template <typename X, typename T>
class IntegerProduct {
 public:
  IntegerProduct(const Matrix& a, const Matrix& b, void* c)
      : a_(a), b_(b), from_a_(static_cast<const X*>(a.data)), from_b_(static_cast<const X*>(b.data)), c_(static_cast<X*>(c)) {}

  void operator()() const {
    const int64_t m = a_.rows, n = b_.cols, k = a_.cols;
    if (m == 0 || n == 0) return;
    if (k == 0) return void(std::fill_n(c_, m * n, X{0}));
    if (n == 1 && multiply_vector({from_a_, m, k, a_.row_stride, a_.col_stride, from_b_, b_.row_stride, c_, 1})) return;
    if (m == 1 && multiply_vector({from_b_, n, k, b_.col_stride, b_.row_stride, from_a_, a_.col_stride, c_, 1})) return;

    Scratch scratch;
    const Right small = small_right(scratch);
    const int64_t panels = (n + kPanel - 1) / kPanel, wide = std::min(n, kPanel);
    int64_t rows = std::min(m, kTaskRows);
    const int64_t least = small.data != nullptr ? 4 : kTileRows;
    const auto parts = [&] { return (m + rows - 1) / rows; };
    while (panels * parts() < kTasks && rows >= 2 * least && rows * wide * k >= 2 * kRange) rows = (rows / 2 + 3) / 4 * 4;
    parallel_for(panels * parts(), std::max<int64_t>(1, kRange / (rows * wide * k)), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task % parts() * rows, column = task / parts() * kPanel;
        multiply_task(small, row, std::min(rows, m - row), column, std::min(kPanel, n - column));
      }
    });
  }

 private:
  /// Rows of b that lie side by side; without data, each task packs its own.
  struct Right {
    const T* data = nullptr;
    int64_t stride = 0;
  };

  static bool multiply_vector(const VectorProduct<X, T>& product) {
    if (!product.along_k() && !product.along_results()) return false;
    product();
    return true;
  }

  Right small_right(Scratch& scratch) const {
    if constexpr (std::is_same_v<X, T>) {
      if (b_.col_stride == 1 && b_.rows * std::max(b_.cols, b_.row_stride) <= kSmallFactor) return {from_b_, b_.row_stride};
    }
    if (b_.rows * b_.cols > kSmallFactor) return {};
    T* const packed = scratch.take<T>(b_.rows * b_.cols);
    pack(from_b_, b_.row_stride, b_.col_stride, b_.rows, b_.cols, packed, b_.cols);
    return {packed, b_.cols};
  }

  void multiply_task(const Right& small, int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    Sums<T>* const sums = product_loops().sums<T>();
    const int64_t k = a_.cols, n = b_.cols;
    const bool a_lies = std::is_same_v<X, T> && a_.col_stride == 1;
    Scratch scratch;
    T* const panel = small.data == nullptr ? scratch.take<T>(std::min(kDepth, k) * columns) : nullptr;
    T* const packed = a_lies ? nullptr : scratch.take<T>(std::min(kTileRows, rows) * std::min(kDepth, k));
    T* const part = scratch.take<T>(std::min(kTileRows, rows) * columns);
    for (int64_t p = 0; p < k; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      Right right{small.data == nullptr ? panel : small.data + p * small.stride + column, small.stride};
      if (small.data == nullptr) {
        pack(from_b_ + p * b_.row_stride + column * b_.col_stride, b_.row_stride, b_.col_stride, depth, columns, panel, columns);
        right.stride = columns;
      }
      for (int64_t r = 0; r < rows; r += kTileRows) {
        const int64_t count = std::min(kTileRows, rows - r);
        const X* const from = from_a_ + (row + r) * a_.row_stride + p * a_.col_stride;
        X* const to = c_ + (row + r) * n + column;
        const T* left = packed;
        int64_t left_stride = depth;
        if constexpr (std::is_same_v<X, T>) {
          if (a_lies) left = from, left_stride = a_.row_stride;
        }
        if (!a_lies) pack(from, a_.row_stride, a_.col_stride, count, depth, packed, depth);
        if constexpr (std::is_same_v<X, T>) {
          if (p == 0) {
            sums(count, columns, depth, left, left_stride, 1, right.data, right.stride, to, n);
            continue;
          }
        }
        sums(count, columns, depth, left, left_stride, 1, right.data, right.stride, part, columns);
        add(part, count, columns, to, p != 0);
      }
    }
  }

  /// A part of c = part, or += it.
  void add(const T* part, int64_t rows, int64_t columns, X* to, bool on) const {
    using Word = std::make_unsigned_t<X>;
    for (int64_t r = 0; r < rows; ++r, part += columns, to += b_.cols) {
      for (int64_t c = 0; c < columns; ++c)
        to[c] = static_cast<X>(static_cast<Word>(part[c]) + (on ? static_cast<Word>(to[c]) : Word{0}));
    }
  }

  const Matrix &a_, &b_;
  const X *from_a_, *from_b_;
  X* c_;
};

}  // namespace

void multiply_integers(const Matrix& a, const Matrix& b, void* c) {
  switch (a.dtype) {
    case DType::int64:
      return IntegerProduct<int64_t, int64_t>(a, b, c)();
    case DType::int32:
      return IntegerProduct<int32_t, int32_t>(a, b, c)();
    default:
      return IntegerProduct<uint8_t, int32_t>(a, b, c)();
  }
}

}  // namespace deckle::kernels::cpu::matmul
