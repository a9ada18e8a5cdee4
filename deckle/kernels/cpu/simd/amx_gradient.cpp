#include "deckle/kernels/cpu/simd/amx_gradient.h"

#include "deckle/base/check.h"
#include "deckle/kernels/cpu/simd/amx_scores.h"

#if defined(__x86_64__)
#include "deckle/kernels/cpu/simd/amx_vectors.h"

namespace deckle::kernels::cpu::simd {
namespace {

/// Weights of 16 rows from `row` on, weights(key, float32 of each), rounded: by neighbouring rows to `units`, and the last ones
/// by keys i and i + 16 to `pairs`; not at all where `units` is null.
template <int kCount, int kPaired, typename F>
DECKLE_SCORES_INLINE void round_weights(int64_t keys, int64_t row, uint32_t* const (&units)[kCount], int64_t unit_stride,
                                        uint32_t* const (&pairs)[kPaired], int64_t pair_stride, const F& weights) {
  const __m512i order = key_pair_order();
  for (int64_t group = 0; group < keys; group += kKeyGroup) {
    for (int64_t i = 0; i < 16; ++i) {
      __m512 low[kCount], high[kCount];
      weights(group + i, low);
      weights(group + i + 16, high);
#pragma GCC unroll 4
      for (int n = 0; n < kCount; ++n) {
        if (units[n] == nullptr) continue;
        const __m512i rounded = round_pairs(low[n], high[n]);
        uint32_t* const unit = units[n] + (group + i) * unit_stride + row / 2;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(unit), _mm512_castsi512_si256(rounded));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(unit + 16 * unit_stride), _mm512_extracti64x4_epi64(rounded, 1));
        if (n >= kCount - kPaired)
          _mm512_storeu_si512(pairs[n - (kCount - kPaired)] + (group / 2 + i) * pair_stride + row,
                              _mm512_permutexvar_epi16(order, rounded));
      }
    }
  }
}

}  // namespace

DECKLE_SCORES void tile_gradient(const float* scores, const float* products, int64_t keys, float factor, const float* lse2,
                                 const float* delta, uint32_t* p_units, uint32_t* dz_units, int64_t unit_stride,
                                 uint32_t* dz_pairs, int64_t pair_stride) {
  const __m512 times = _mm512_set1_ps(factor);
  for (int64_t row = 0; row < kTileQueries; row += 16) {
    const __m512 lse = _mm512_loadu_ps(lse2 + row), mean = _mm512_loadu_ps(delta + row);
    round_weights(keys, row, {p_units, dz_units}, unit_stride, {dz_pairs}, pair_stride,
                  [&](int64_t key, __m512* to) DECKLE_WEIGHTS {
                    const int64_t at = kTileQueries * key + row;
                    to[0] = exp2_of(_mm512_loadu_ps(scores + at), times, lse);
                    to[1] = _mm512_mul_ps(to[0], _mm512_sub_ps(_mm512_loadu_ps(products + at), mean));
                  });
  }
}

DECKLE_SCORES void tile_gradient_units(const float* p, const float* dz, int64_t keys, uint32_t* p_units, uint32_t* dz_units,
                                       int64_t unit_stride, uint32_t* dz_pairs, int64_t pair_stride) {
  for (int64_t row = 0; row < kTileQueries; row += 16) {
    round_weights(keys, row, {p_units, dz_units}, unit_stride, {dz_pairs}, pair_stride,
                  [&](int64_t key, __m512* to) DECKLE_WEIGHTS {
                    to[0] = _mm512_loadu_ps(p + kTileQueries * key + row);
                    to[1] = _mm512_loadu_ps(dz + kTileQueries * key + row);
                  });
  }
}

DECKLE_SCORES void tile_second(const SecondScores& from, int64_t keys, float factor, float scale, const SecondUnits& to) {
  const __m512 times = _mm512_set1_ps(factor), tangent_times = _mm512_set1_ps(scale);
  for (int64_t row = 0; row < kTileQueries; row += 16) {
    const __m512 lse = _mm512_loadu_ps(from.lse2 + row), delta = _mm512_loadu_ps(from.delta + row),
                 lse_tangent = _mm512_loadu_ps(from.lse_tangent + row), delta_tangent = _mm512_loadu_ps(from.delta_tangent + row);
    round_weights(keys, row, {to.p, to.p_tangent, to.dz, to.dz_tangent}, to.unit_stride, {to.dz_pairs, to.dz_tangent_pairs},
                  to.pair_stride, [&](int64_t key, __m512* weights) DECKLE_WEIGHTS {
                    const int64_t at = kTileQueries * key + row;
                    const __m512 p = exp2_of(_mm512_loadu_ps(from.scores + at), times, lse);
                    const __m512 c = _mm512_maskz_fmsub_ps(_mm512_cmp_ps_mask(p, _mm512_setzero_ps(), _CMP_NEQ_UQ),
                                                           _mm512_loadu_ps(from.tangents + at), tangent_times, lse_tangent);
                    const __m512 s = _mm512_sub_ps(_mm512_loadu_ps(from.products + at), delta);
                    const __m512 moved = _mm512_sub_ps(_mm512_loadu_ps(from.product_tangents + at), delta_tangent);
                    weights[0] = p;
                    weights[1] = _mm512_mul_ps(p, c);
                    weights[2] = _mm512_mul_ps(p, s);
                    weights[3] = _mm512_mul_ps(p, _mm512_fmadd_ps(c, s, moved));
                  });
  }
}

}  // namespace deckle::kernels::cpu::simd

#else  // as in amx_scores.cpp

namespace deckle::kernels::cpu::simd {
namespace {
[[noreturn]] void none() { fail(ErrorKind::runtime, "this machine has no AMX tiles"); }
}  // namespace

void tile_gradient(const float*, const float*, int64_t, float, const float*, const float*, uint32_t*, uint32_t*, int64_t,
                   uint32_t*, int64_t) {
  none();
}
void tile_gradient_units(const float*, const float*, int64_t, uint32_t*, uint32_t*, int64_t, uint32_t*, int64_t) { none(); }
void tile_second(const SecondScores&, int64_t, float, float, const SecondUnits&) { none(); }

}  // namespace deckle::kernels::cpu::simd
#endif
