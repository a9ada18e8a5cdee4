#pragma once

#include "deckle/kernels/cpu/simd/amx_scores.h"

// What the files on scores between tile products (amx_scores.cpp, amx_gradient.cpp, amx_tangent.cpp) share: vectors of AVX-512.

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

/// `times` turns references into units of log2.
DECKLE_SCORES_INLINE __mmask16 are_far(__m512 references, __m512 times, __mmask16 seen) {
  const __m512 far = _mm512_set1_ps(kFarReference * 1.44269504f);
  return _mm512_mask_cmp_ps_mask(seen, _mm512_abs_ps(_mm512_mul_ps(references, times)), far, _CMP_GT_OQ);
}

/// Moves the references and the sums where tile_softmax says; then returns true and writes `rescale`.
template <int kVectors>
DECKLE_SCORES_INLINE bool move_reference(const float* __restrict scores, int64_t keys, __m512 times, float* __restrict reference,
                                         float* __restrict sum, float* __restrict rescale) {
  const __m512 minus_infinity = _mm512_set1_ps(-__builtin_inff());
  bool moved = false;
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const float* at = scores + 16 * v;
    __m512 m0 = _mm512_loadu_ps(at), m1 = _mm512_loadu_ps(at + 32), m2 = _mm512_loadu_ps(at + 64), m3 = _mm512_loadu_ps(at + 96);
    for (int64_t j = 4; j < keys; j += 4) {
      m0 = _mm512_max_ps(m0, _mm512_loadu_ps(at + 32 * j));
      m1 = _mm512_max_ps(m1, _mm512_loadu_ps(at + 32 * j + 32));
      m2 = _mm512_max_ps(m2, _mm512_loadu_ps(at + 32 * j + 64));
      m3 = _mm512_max_ps(m3, _mm512_loadu_ps(at + 32 * j + 96));
    }
    const __m512 top = _mm512_max_ps(_mm512_max_ps(m0, m1), _mm512_max_ps(m2, m3)), old = _mm512_loadu_ps(reference + 16 * v);
    const __m512 excess = _mm512_mul_ps(_mm512_sub_ps(top, old), times);
    if (_mm512_cmp_ps_mask(excess, _mm512_set1_ps(8.0f), _CMP_GT_OQ) != 0) moved = true;
  }
  if (!moved) return false;
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    __m512 top = _mm512_loadu_ps(scores + 16 * v);
    for (int64_t j = 1; j < keys; ++j) top = _mm512_max_ps(top, _mm512_loadu_ps(scores + 32 * j + 16 * v));
    const __m512 old = _mm512_loadu_ps(reference + 16 * v), now = _mm512_max_ps(top, old);
    const __mmask16 seen = _mm512_cmp_ps_mask(now, minus_infinity, _CMP_NEQ_UQ);
    const __mmask16 far = are_far(now, times, seen);
    const __m512 before = _mm512_mask_sub_ps(old, far, old, now), shift = _mm512_maskz_mul_ps(~far, now, times);
    const __m512 by = _mm512_mask_blend_ps(seen, _mm512_set1_ps(1.0f), exp2_of(before, times, shift));
    _mm512_storeu_ps(reference + 16 * v, now);
    _mm512_storeu_ps(sum + 16 * v, _mm512_mul_ps(_mm512_loadu_ps(sum + 16 * v), by));
    _mm512_storeu_ps(rescale + 16 * v, by);
  }
  return true;
}

/// The reference of 16 columns: weights are 2^(factor * (score - near) - far). In each column one of both is 0; near is in all
/// unless `subtracts`.
struct SplitReference {
  __m512 near, far;
  bool subtracts;

  DECKLE_SCORES_INLINE SplitReference(const float* reference, __m512 times) {
    const __m512 held = _mm512_loadu_ps(reference);
    // A row without a visible key so far has the reference -inf; use 0, as -inf - (-inf) is NaN.
    const __mmask16 seen = _mm512_cmp_ps_mask(held, _mm512_set1_ps(-__builtin_inff()), _CMP_NEQ_UQ),
                    are = are_far(held, times, seen);
    near = _mm512_maskz_mov_ps(are, held), far = _mm512_maskz_mul_ps(seen & ~are, held, times), subtracts = are != 0;
  }
};

}  // namespace
}  // namespace deckle::kernels::cpu::simd
