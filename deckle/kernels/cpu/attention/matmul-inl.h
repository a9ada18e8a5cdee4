// The one matrix product of all attention kernels:   C[m, W] = start + A[m, depth] · B[depth, W],   W = kNr vectors.
//
// A is read one element at a time and broadcast, by rows (A[i, k] = a[i * lda + k]) or by columns (a[k * lda + i]); B and C are
// read and written in whole vectors. So q, k, v, dO, P and dS all serve as A or B in the layout of their tiles, and only q and dO
// are transposed, once per row tile.
//
// Every C element is one chain of fused multiply-adds over k in ascending order, whatever the block it falls in: results do not
// depend on how rows are partitioned.

#if defined(DECKLE_ATTENTION_MATMUL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_MATMUL_INL_H_
#undef DECKLE_ATTENTION_MATMUL_INL_H_
#else
#define DECKLE_ATTENTION_MATMUL_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(hn::ScalableTag<T>()));

// 8 rows x 2 vectors keep 16 accumulators: enough to hide the latency of two FMA pipes, and head dims are multiples of 8.
// With 16 registers only 4 x 2 fit.
inline constexpr int kMatmulRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;
inline constexpr int kMatmulVectors = 2;

/// Vectors of one row block of queries: the lanes of the transposed score tiles.
template <typename T>
inline constexpr int kBlock = kMatmulVectors* kLanes<T>;

enum class AOrder { rows, columns };

/// The initial value of C: zero, a sum to add to, or a sum that is first scaled lane by lane.
template <typename T>
struct Start {
  bool add = false;
  const T* rescale = nullptr;  // kNr vectors
};

/// Addresses that a product prefetches on its way, evenly spread over its depth: memory serves few lines at a time, and a burst
/// of requests holds up the loads behind it.
struct LinesAhead {
  static constexpr int64_t kMost = 64;
  const char* lines[kMost];
  int64_t count = 0;
};

/// Steps of the depth between two prefetches.
inline constexpr int64_t kAheadSteps = 4;

template <int kMr, int kNr, AOrder kOrder, bool kAhead = false, typename T>
HWY_INLINE void matmul_block(int64_t depth, const T* HWY_RESTRICT a, int64_t lda, const T* HWY_RESTRICT b, int64_t ldb,
                             T* HWY_RESTRICT c, int64_t ldc, Start<T> start, const LinesAhead* ahead = nullptr) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kN = kLanes<T>;
  V sum[kMr][kNr];
#pragma GCC unroll 16
  for (int i = 0; i < kMr; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kNr; ++j) sum[i][j] = hn::Zero(d);
  }
  const auto step = [&]() HWY_ATTR {
    V right[kNr];
#pragma GCC unroll 4
    for (int j = 0; j < kNr; ++j) right[j] = hn::LoadU(d, b + j * kN);
#pragma GCC unroll 16
    for (int i = 0; i < kMr; ++i) {
      const V left = hn::Set(d, kOrder == AOrder::rows ? a[i * lda] : a[i]);
#pragma GCC unroll 4
      for (int j = 0; j < kNr; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
    a += kOrder == AOrder::rows ? 1 : lda;
    b += ldb;
  };
  int64_t k = 0;
  if constexpr (kAhead) {
    const char* const* line = ahead->lines;
    const char* const* const end = line + ahead->count;
    const int64_t groups = depth / kAheadSteps, each = groups > 0 ? (ahead->count + groups - 1) / groups : 0;
    for (; k + kAheadSteps <= depth; k += kAheadSteps) {
      for (const char* const* const stop = line + each < end ? line + each : end; line < stop; ++line)
        __builtin_prefetch(*line, 0, 2);
#pragma GCC unroll 4
      for (int64_t s = 0; s < kAheadSteps; ++s) step();
    }
  }
  for (; k < depth; ++k) step();
  // The old C is added last: a sum of per-tile sums rounds less than one long chain.
  if (start.add) {
#pragma GCC unroll 16
    for (int i = 0; i < kMr; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kNr; ++j) {
        const V held = hn::LoadU(d, c + i * ldc + j * kN);
        sum[i][j] = start.rescale != nullptr ? hn::MulAdd(held, hn::LoadU(d, start.rescale + j * kN), sum[i][j])
                                             : hn::Add(held, sum[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kMr; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kNr; ++j) hn::StoreU(sum[i][j], d, c + i * ldc + j * kN);
  }
}

/// C[kMatmulRows, n] as above, n rounded up to one or two vectors, with prefetches.
template <AOrder kOrder, typename T>
HWY_NOINLINE void matmul_rows_ahead(int64_t n, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
                                    Start<T> start, const LinesAhead& ahead) {
  if (n > kLanes<T>) {
    matmul_block<kMatmulRows, 2, kOrder, true>(depth, a, lda, b, ldb, c, ldc, start, &ahead);
  } else {
    matmul_block<kMatmulRows, 1, kOrder, true>(depth, a, lda, b, ldb, c, ldc, start, &ahead);
  }
}

/// C[m, kNr vectors] as above.
template <int kNr, AOrder kOrder, typename T>
HWY_NOINLINE void matmul_panel(int64_t m, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
                               Start<T> start) {
  const int64_t step = kOrder == AOrder::rows ? lda : 1;
  int64_t i = 0;
  for (; i + kMatmulRows <= m; i += kMatmulRows) {
    matmul_block<kMatmulRows, kNr, kOrder>(depth, a + i * step, lda, b, ldb, c + i * ldc, ldc, start);
  }
  if constexpr (kMatmulRows > 4) {
    if (i + 4 <= m) {
      matmul_block<4, kNr, kOrder>(depth, a + i * step, lda, b, ldb, c + i * ldc, ldc, start);
      i += 4;
    }
  }
  if (i + 2 <= m) {
    matmul_block<2, kNr, kOrder>(depth, a + i * step, lda, b, ldb, c + i * ldc, ldc, start);
    i += 2;
  }
  if (i < m) matmul_block<1, kNr, kOrder>(depth, a + i * step, lda, b, ldb, c + i * ldc, ldc, start);
}

/// C[m, n] with n rounded up to whole vectors, which C and B must have room for.
template <AOrder kOrder, typename T>
void matmul(int64_t m, int64_t n, int64_t depth, const T* a, int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc,
            Start<T> start) {
  constexpr int kN = kLanes<T>;
  int64_t j = 0;
  for (; n - j > kN; j += 2 * kN) matmul_panel<2, kOrder>(m, depth, a, lda, b + j, ldb, c + j, ldc, start);
  if (j < n) matmul_panel<1, kOrder>(m, depth, a, lda, b + j, ldb, c + j, ldc, start);
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
