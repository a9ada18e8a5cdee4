#include "deckle/kernels/cpu/simd/bf16_dot.h"

#include "deckle/base/check.h"

#if defined(__x86_64__)
// GCC 12 warns about the deliberately undefined operand of unmasked intrinsics.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

// Functions have a target attribute: the file compiles for any machine, and they are called only where supported.
#define DECKLE_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

namespace deckle::kernels::cpu::simd {
namespace {

DECKLE_BF16 inline __m512bh pairs(__m512i bits) { return reinterpret_cast<__m512bh>(bits); }

// 8 rows x 2 vectors, as the float32 product.
template <int kMr, int kNr, bool kColumns>
DECKLE_BF16 inline void block(int64_t depth, const uint32_t* __restrict a, int64_t lda, const uint32_t* __restrict b, int64_t ldb,
                              float* __restrict c, int64_t ldc, bool add, const float* __restrict rescale, float factor) {
  __m512 sum[kMr][kNr];
#pragma GCC unroll 16
  for (int i = 0; i < kMr; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kNr; ++j) sum[i][j] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < depth; ++k) {
    __m512bh right[kNr];
#pragma GCC unroll 4
    for (int j = 0; j < kNr; ++j) right[j] = pairs(_mm512_loadu_si512(b + 16 * j));
#pragma GCC unroll 16
    for (int i = 0; i < kMr; ++i) {
      const __m512bh left = pairs(_mm512_set1_epi32(static_cast<int>(kColumns ? a[i] : a[i * lda])));
#pragma GCC unroll 4
      for (int j = 0; j < kNr; ++j) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], left, right[j]);
    }
    a += kColumns ? lda : 1;
    b += ldb;
  }
  const __m512 times = _mm512_set1_ps(factor);
#pragma GCC unroll 16
  for (int i = 0; i < kMr; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kNr; ++j) {
      float* at = c + i * ldc + 16 * j;
      __m512 value = _mm512_mul_ps(sum[i][j], times);
      if (add)
        value = rescale != nullptr ? _mm512_fmadd_ps(_mm512_loadu_ps(at), _mm512_loadu_ps(rescale + 16 * j), value)
                                   : _mm512_add_ps(_mm512_loadu_ps(at), value);
      _mm512_storeu_ps(at, value);
    }
  }
}

template <int kNr, bool kColumns>
DECKLE_BF16 void panel(int64_t m, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, float* c,
                       int64_t ldc, bool add, const float* rescale, float factor) {
  const int64_t step = kColumns ? 1 : lda;
  int64_t i = 0;
  for (; i + 8 <= m; i += 8) block<8, kNr, kColumns>(depth, a + i * step, lda, b, ldb, c + i * ldc, ldc, add, rescale, factor);
  if (i + 4 <= m) block<4, kNr, kColumns>(depth, a + i * step, lda, b, ldb, c + i * ldc, ldc, add, rescale, factor), i += 4;
  if (i + 2 <= m) block<2, kNr, kColumns>(depth, a + i * step, lda, b, ldb, c + i * ldc, ldc, add, rescale, factor), i += 2;
  if (i < m) block<1, kNr, kColumns>(depth, a + i * step, lda, b, ldb, c + i * ldc, ldc, add, rescale, factor);
}

}  // namespace

void bf16_matmul(bool by_columns, int64_t m, int64_t n, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b,
                 int64_t ldb, float* c, int64_t ldc, bool add, const float* rescale, float factor) {
  int64_t j = 0;
  const auto at = [&](int64_t column) { return rescale == nullptr ? nullptr : rescale + column; };
  for (; n - j > 16; j += 32) {
    (by_columns ? panel<2, true> : panel<2, false>)(m, depth, a, lda, b + j, ldb, c + j, ldc, add, at(j), factor);
  }
  if (j < n) (by_columns ? panel<1, true> : panel<1, false>)(m, depth, a, lda, b + j, ldb, c + j, ldc, add, at(j), factor);
}

DECKLE_BF16 void bf16_pairs_along_columns(const float* from, int64_t from_stride, int64_t rows, int64_t columns, uint32_t* to,
                                          int64_t to_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* source = from + r * from_stride;
    uint32_t* target = to + r * to_stride;
    int64_t c = 0;
    for (; c + 32 <= columns; c += 32) {
      const __m512bh both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(source + c + 16), _mm512_loadu_ps(source + c));
      _mm512_storeu_si512(target + c / 2, reinterpret_cast<__m512i>(both));
    }
    for (; c < columns; c += 16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + c / 2),
                          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(source + c))));
    }
  }
}

DECKLE_BF16 void bf16_pairs_along_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, uint32_t* to,
                                       int64_t to_stride) {
  for (int64_t r = 0; r < rows; r += 2) {
    for (int64_t c = 0; c < columns; c += 16) {
      const __m512 odd_row = r + 1 < rows ? _mm512_loadu_ps(from + (r + 1) * from_stride + c) : _mm512_setzero_ps();
      const __m512i even =
          _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(from + r * from_stride + c))));
      const __m512i odd = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(odd_row)));
      _mm512_storeu_si512(to + r / 2 * to_stride + c, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
    }
  }
}

}  // namespace deckle::kernels::cpu::simd

#else  // not supported by the target: cpu_isa() never says avx512_bf16

namespace deckle::kernels::cpu::simd {

void bf16_matmul(bool, int64_t, int64_t, int64_t, const uint32_t*, int64_t, const uint32_t*, int64_t, float*, int64_t, bool,
                 const float*, float) {
  fail(ErrorKind::runtime, "this machine has no bfloat16 dot product");
}
void bf16_pairs_along_columns(const float*, int64_t, int64_t, int64_t, uint32_t*, int64_t) {
  fail(ErrorKind::runtime, "this machine has no bfloat16 dot product");
}
void bf16_pairs_along_rows(const float*, int64_t, int64_t, int64_t, uint32_t*, int64_t) {
  fail(ErrorKind::runtime, "this machine has no bfloat16 dot product");
}

}  // namespace deckle::kernels::cpu::simd
#endif
