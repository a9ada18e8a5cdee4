#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/matmul/loops.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::matmul {

inline constexpr int64_t kRange = 131072;  // multiplications per parallel range: 5 us or more

/// results[r stride] = the sum over p of matrix[r row_stride + p k_stride] vector[p vector_stride], where rows of the matrix, of
/// X, are multiplied in T: bounded by reading the matrix once.
///
/// k is cut at kChunk, whose partial sums are added in double, those of integers modulo the range of X: the partition depends on
/// shapes alone. Where the matrix's rows lie along the results it is cut more often, at kDepth, and the results less: so each
/// step reads long runs, which the processor fetches ahead, and not a few lines of each page.
template <typename X, typename T>
struct VectorProduct {
  const X* matrix;
  int64_t results, k, row_stride, k_stride;
  const X* vector;
  int64_t vector_stride;
  X* to;
  int64_t stride;
  const X* bias = nullptr;  // of halves: added before the sums are rounded
  int64_t bias_stride = 0;

  static constexpr int64_t kChunk = 1024;                // of k
  static constexpr int64_t kRows = 16, kColumns = 1024;  // results of a step
  static constexpr int64_t kDepth = 128;                 // of k, of a step along the results
  static constexpr bool kWidens = !std::is_same_v<X, T>, kWhole = std::is_integral_v<T>;
  using Sum = std::conditional_t<kWhole, uint64_t, double>;

  bool along_k() const { return k_stride == 1; }
  bool along_results() const { return row_stride == 1; }

  /// Where along_k() or along_results(), and k > 0.
  void operator()() const {
    const VectorLoops<X, T>& loops = product_loops().vector_loops<X, T>();
    const int64_t chunk_size = along_k() ? kChunk : kDepth, chunks = (k + chunk_size - 1) / chunk_size;
    const int64_t block = along_k() ? kRows : kColumns, blocks = (results + block - 1) / block;
    Scratch scratch;
    const T* const factors = dense_vector(scratch);
    // Of one chunk where results lie side by side, they are written at once.
    T* partial = nullptr;
    bool direct = false;
    if constexpr (!kWidens) {
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
          loops.dots(count, depth, part, row_stride, factors + p, sums, apart);
        else
          loops.sum_row(count, depth, factors + p, 1, part, k_stride, sums);
      }
    });
    if (!direct) add_chunks(partial, chunks);
  }

 private:
  const T* dense_vector(Scratch& scratch) const {
    if constexpr (!kWidens) {
      if (vector_stride == 1) return vector;
    }
    T* const dense = scratch.take<T>(k);
    if constexpr (kWhole) {
      for (int64_t p = 0; p < k; ++p) dense[p] = static_cast<T>(vector[p * vector_stride]);
    } else {
      simd::load_run(vector, dtype_of<X>, vector_stride, k, dense);
    }
    return dense;
  }

  void add_chunks(const T* partial, int64_t chunks) const {
    constexpr int64_t kBlock = 256;
    const int64_t blocks = (results + kBlock - 1) / kBlock;
    parallel_for(blocks, std::max<int64_t>(1, kRange / (kBlock * chunks)), [&](int64_t begin, int64_t end) {
      Sum sums[kBlock];
      for (int64_t first = begin * kBlock; first < std::min(end * kBlock, results); first += kBlock) {
        const int64_t count = std::min(kBlock, results - first);
        std::fill_n(sums, count, Sum{0});
        if constexpr (!kWhole) {
          if (bias != nullptr) simd::load_run(bias + first * bias_stride, dtype_of<X>, bias_stride, count, sums);
        }
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
          const T* const from = partial + chunk * results + first;
          for (int64_t r = 0; r < count; ++r) sums[r] += static_cast<Sum>(from[r]);
        }
        if constexpr (kWhole) {
          for (int64_t r = 0; r < count; ++r) to[(first + r) * stride] = static_cast<X>(sums[r]);
        } else {
          simd::store_run(sums, count, to + first * stride, dtype_of<X>, stride);
        }
      }
    });
  }
};

}  // namespace deckle::kernels::cpu::matmul
