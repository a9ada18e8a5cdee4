// The arithmetic of the products of the forward and the backward, and the tile layout of their operands.
//
// A contraction runs along a row (q k^T, dout v^T) or across rows (P v, P^T dout, dS k, dS^T q). Plain<T> uses one tile for both:
// T times T. PairDot multiplies pairs of bfloat16 elements adjacent along the contraction (twice the FMA rate), so it stores each
// operand in the pairings that its products need, scales after the product (folding the scale into q would round q again) and
// rounds P and dS to bfloat16 once, when they become operands.

#if defined(DECKLE_ATTENTION_ARITHMETIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_ARITHMETIC_INL_H_
#undef DECKLE_ATTENTION_ARITHMETIC_INL_H_
#else
#define DECKLE_ATTENTION_ARITHMETIC_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/prefetch.h"
#include "deckle/kernels/cpu/simd/amx_scores.h"
#include "deckle/kernels/cpu/simd/bf16_dot.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
struct Plain {
  using Element = T;                   // of scores, sums and statistics
  using Unit = T;                      // of operands
  static constexpr int64_t kFold = 1;  // elements along the contraction in one unit

  static T query_factor(double scale) { return static_cast<T>(scale); }
  static T score_factor(double) { return T(1); }

  template <AOrder kOrder>
  static void product(int64_t m, int64_t n, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
                      Start<T> start, T = T(1)) {
    matmul<kOrder>(m, n, depth, a, lda, b, ldb, c, ldc, start);
  }

  /// Rows to units along the row, and across rows: the same.
  static void load(DType dtype, const AttentionRows& from, int64_t first, int64_t count, int64_t padded, int64_t head, int64_t n,
                   T factor, T* rows, int64_t stride) {
    load_rows(dtype, from, first, count, padded, head, n, factor, rows, stride);
  }
  static void pair_rows(const T*, int64_t, int64_t, int64_t, T*, int64_t) {}

  /// A score tile [keys, stride] as an operand of a contraction along its columns, or across its rows.
  static const T* along_columns(const T* tile, int64_t, int64_t, int64_t, T*, int64_t) { return tile; }
  static const T* across_rows(const T* tile, int64_t, int64_t, int64_t, T*, int64_t) { return tile; }
};

#if HWY_TARGET == HWY_AVX3
struct PairDot {
  using Element = float;
  using Unit = uint32_t;
  static constexpr int64_t kFold = 2;

  static float query_factor(double) { return 1.0f; }
  static float score_factor(double scale) { return static_cast<float>(scale); }

  template <AOrder kOrder>
  static void product(int64_t m, int64_t n, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb,
                      float* c, int64_t ldc, Start<float> start, float factor = 1.0f) {
    simd::bf16_matmul(kOrder == AOrder::columns, m, n, (depth + 1) / 2, a, lda, b, ldb, c, ldc, start.add, start.rescale, factor);
  }

  static void load(DType dtype, const AttentionRows& from, int64_t first, int64_t count, int64_t padded, int64_t head, int64_t n,
                   float, uint32_t* rows, int64_t stride) {
    const int64_t units = (n + 1) / 2;
    for (int64_t r = 0; r < count; ++r) {
      if (n % 2 != 0) rows[r * stride + units - 1] = 0;  // padding of an odd length
      std::memcpy(rows + r * stride, row_address(dtype, from, first + r, head), static_cast<size_t>(n) * 2);
    }
    for (int64_t r = count; r < padded; ++r) std::memset(rows + r * stride, 0, static_cast<size_t>(units) * 4);
  }

  static void pair_rows(const uint32_t* rows, int64_t stride, int64_t count, int64_t n, uint32_t* to, int64_t to_stride) {
    simd::tile_row_pairs(rows, stride, count, n, to, to_stride);
  }

  static const uint32_t* along_columns(const float* tile, int64_t stride, int64_t keys, int64_t lanes, uint32_t* to,
                                       int64_t to_stride) {
    simd::bf16_pairs_along_columns(tile, stride, keys, lanes, to, to_stride);
    return to;
  }
  static const uint32_t* across_rows(const float* tile, int64_t stride, int64_t keys, int64_t lanes, uint32_t* to,
                                     int64_t to_stride) {
    simd::bf16_pairs_along_rows(tile, stride, keys, lanes, to, to_stride);
    return to;
  }
};
#endif

/// Units of a contraction over n elements.
template <class A>
constexpr int64_t units_of(int64_t n) {
  return (n + A::kFold - 1) / A::kFold;
}

/// Up to `capacity` rows of n elements: `rows` pairs along the row, `pairs` across rows (the same tile in Plain arithmetic).
template <class A>
struct Operand {
  using Unit = typename A::Unit;
  int64_t width, row_stride, pair_stride;
  Unit* rows;
  Unit* pairs;

  Operand(Scratch& scratch, int64_t capacity, int64_t n)
      : width(n),
        row_stride(tile_stride<Unit>(units_of<A>(n))),
        pair_stride(tile_stride<Unit>(n)),
        rows(scratch.take<Unit>(capacity * row_stride)),
        pairs(A::kFold == 1 ? rows : scratch.take<Unit>(units_of<A>(capacity) * pair_stride)) {}

  /// Rows past `count` up to `padded` become 0.
  void load(DType dtype, const AttentionRows& from, int64_t first, int64_t count, int64_t padded, int64_t head,
            typename A::Element factor) {
    A::load(dtype, from, first, count, padded, head, width, factor, rows, row_stride);
  }
  /// Call after load (and changes of rows) if `pairs` is used.
  void pair(int64_t count) { A::pair_rows(rows, row_stride, count, width, pairs, pair_stride); }
};

/// Transposes one block of rows to [units of the row, kBlock].
template <class A>
void block_to_lanes(const typename A::Unit* rows, int64_t stride, int64_t width, typename A::Unit* lanes) {
  using T = typename A::Element;  // of the same size as a unit: transposing only moves bits
  transpose(reinterpret_cast<const T*>(rows), stride, kBlock<T>, units_of<A>(width), reinterpret_cast<T*>(lanes), kBlock<T>);
}

/// Rows of a product between two prefetches.
inline constexpr int64_t kPrefetchRows = 8;

/// A::product in pieces, with `soon` prefetching between them.
template <class A, AOrder kOrder, typename T = typename A::Element, typename Unit = typename A::Unit>
void product_with_requests(int64_t m, int64_t n, int64_t depth, const Unit* a, int64_t lda, const Unit* b, int64_t ldb, T* c,
                           int64_t ldc, Start<T> start, T factor, RowPrefetch& soon) {
  int64_t i = 0;
  if constexpr (A::kFold == 1 && kMatmulRows == kPrefetchRows) {
    LinesAhead ahead;
    for (; i + kPrefetchRows <= m && !soon.empty(); i += kPrefetchRows) {
      ahead.count = soon.take(ahead.lines, LinesAhead::kMost);
      matmul_rows_ahead<kOrder>(n, depth, a + (kOrder == AOrder::rows ? i * lda : i), lda, b, ldb, c + i * ldc, ldc, start,
                                ahead);
    }
    if (i == m) return;
  } else {
    for (; i + kPrefetchRows < m && !soon.empty(); i += kPrefetchRows) {
      soon.step();
      A::template product<kOrder>(kPrefetchRows, n, depth, a + (kOrder == AOrder::rows ? i * lda : i), lda, b, ldb, c + i * ldc,
                                  ldc, start, factor);
    }
  }
  soon.step();
  A::template product<kOrder>(m - i, n, depth, a + (kOrder == AOrder::rows ? i * lda : i), lda, b, ldb, c + i * ldc, ldc, start,
                              factor);
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
