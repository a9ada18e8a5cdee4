#pragma once

// What the files on scores between tile products (amx_scores.cpp, amx_gradient.cpp) share: vectors of AVX-512.

// GCC 12 warns about the deliberately undefined operand of unmasked intrinsics.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wignored-attributes"
#include <immintrin.h>

// Functions have a target attribute: the file compiles for any machine, and they are called only where supported.
#define DECKLE_SCORES __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define DECKLE_WEIGHTS __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define DECKLE_SCORES_INLINE DECKLE_SCORES inline __attribute__((always_inline))

namespace deckle::kernels::cpu::simd {
namespace {

/// 2^(score * factor - reference). The polynomial on [0, 1) is exactly 1 at 0 and within 1e-7; VSCALEF floors t, and gives
/// exactly 0 for -inf. A degree less than attention/exp-inl.h has, as weights become bfloat16.
DECKLE_SCORES_INLINE __m512 exp2_of(__m512 score, __m512 factor, __m512 reference) {
  const __m512 t = _mm512_fmsub_ps(score, factor, reference);
  const __m512 f = _mm512_reduce_ps(t, 0x09);  // t - floor(t); no exception
  __m512 p = _mm512_set1_ps(0.0018671300495043397f);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.009017030708491802f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.05579991266131401f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.24016444385051727f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.6931512951850891f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, t);
}

DECKLE_SCORES_INLINE __m512i key_pair_order() {
  return _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2,
                          17, 1, 16, 0);
}

/// Both rounded to bfloat16: `low` in elements 0 to 15, `high` in 16 to 31.
DECKLE_SCORES_INLINE __m512i round_pairs(__m512 low, __m512 high) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
}

/// Pairs (low[i], high[i]) of bfloat16.
DECKLE_SCORES_INLINE __m512i pair_rows(__m512 low, __m512 high, __m512i order) {
  return _mm512_permutexvar_epi16(order, round_pairs(low, high));
}

}  // namespace
}  // namespace deckle::kernels::cpu::simd
