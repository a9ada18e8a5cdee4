#include "deckle/kernels/cpu/simd/amx_tangent.h"

#include "deckle/base/check.h"

#if defined(__x86_64__)
#include "deckle/kernels/cpu/simd/amx_vectors.h"

namespace deckle::kernels::cpu::simd {
namespace {

/// Weights of 16 columns, which replace the scores, also as pairs of keys; their sums, and the moment, sum of weights (tz - mean)
/// with tangents = tz / tangent_factor. The mean is the one of earlier keys. `subtracts` is by.subtracts.
template <bool subtracts>
DECKLE_SCORES_INLINE __m512 tangent_weights_of(float* __restrict scores, const float* __restrict tangents, int64_t keys,
                                               __m512 factor, const SplitReference& by, __m512 tangent_factor, __m512 mean,
                                               uint32_t* __restrict pairs, __m512& moment) {
  const __m512i order = key_pair_order();
  const auto weight = [&](float* at, const float* tangent, __m512& of) DECKLE_WEIGHTS {
    const __m512 score = _mm512_loadu_ps(at);
    const __m512 p = exp2_of(subtracts ? _mm512_sub_ps(score, by.near) : score, factor, by.far);
    _mm512_storeu_ps(at, p);
    const __mmask16 seen = _mm512_cmp_ps_mask(p, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    of = _mm512_mask3_fmadd_ps(p, _mm512_fmsub_ps(_mm512_loadu_ps(tangent), tangent_factor, mean), of, seen);
    return p;
  };
  __m512 total0 = _mm512_setzero_ps(), total1 = total0, moment0 = total0, moment1 = total0;
  for (int64_t group = 0; group < keys; group += kKeyGroup) {
    float* at = scores + 32 * group;
    const float* tangent = tangents + 32 * group;
    uint32_t* to = pairs + 16 * group;
#pragma GCC unroll 4
    for (int i = 0; i < 16; ++i) {
      const __m512 a = weight(at + 32 * i, tangent + 32 * i, moment0),
                   b = weight(at + 32 * (i + 16), tangent + 32 * (i + 16), moment1);
      total0 = _mm512_add_ps(total0, a);
      total1 = _mm512_add_ps(total1, b);
      _mm512_storeu_si512(to + 32 * i, pair_rows(a, b, order));
    }
  }
  moment = _mm512_add_ps(moment0, moment1);
  return _mm512_add_ps(total0, total1);
}

/// Weights times (tz - mean) of 16 columns, as pairs of keys.
DECKLE_SCORES_INLINE void centred_tangents(const float* __restrict weights, const float* __restrict tangents, int64_t keys,
                                           __m512 tangent_factor, __m512 mean, uint32_t* __restrict pairs) {
  const __m512i order = key_pair_order();
  const auto product = [&](int64_t at) DECKLE_WEIGHTS {
    const __m512 p = _mm512_loadu_ps(weights + at);
    const __mmask16 seen = _mm512_cmp_ps_mask(p, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    return _mm512_maskz_mul_ps(seen, p, _mm512_fmsub_ps(_mm512_loadu_ps(tangents + at), tangent_factor, mean));
  };
  for (int64_t group = 0; group < keys; group += kKeyGroup) {
#pragma GCC unroll 4
    for (int64_t i = group; i < group + 16; ++i)
      _mm512_storeu_si512(pairs + 16 * group + 32 * (i - group), pair_rows(product(32 * i), product(32 * (i + 16)), order));
  }
}

template <int kVectors>
DECKLE_SCORES void tangent_softmax(float* __restrict scores, const float* __restrict tangents, int64_t keys, float factor,
                                   float tangent_factor, float* __restrict reference, float* __restrict sum,
                                   float* __restrict mean, uint32_t* __restrict pairs, uint32_t* __restrict tangent_pairs,
                                   float* __restrict rescale, float* __restrict shift) {
  const __m512 times = _mm512_set1_ps(factor), times_tangent = _mm512_set1_ps(tangent_factor);
  if (!move_reference<kVectors>(scores, keys, times, reference, sum, rescale)) {
    for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(rescale + 16 * v, _mm512_set1_ps(1.0f));
  }
  for (int v = 0; v < kVectors; ++v) {
    const int at = 16 * v;
    const SplitReference by(reference + at, times);
    const __m512 before = _mm512_loadu_ps(mean + at);
    __m512 moment;
    const __m512 added =
        !by.subtracts
            ? tangent_weights_of<false>(scores + at, tangents + at, keys, times, by, times_tangent, before, pairs + at, moment)
            : tangent_weights_of<true>(scores + at, tangents + at, keys, times, by, times_tangent, before, pairs + at, moment);
    const __m512 total = _mm512_add_ps(_mm512_loadu_ps(sum + at), added);
    // Earlier keys contribute nothing to the moment, by the definition of the mean.
    const __mmask16 seen = _mm512_cmp_ps_mask(total, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    const __m512 moved = _mm512_maskz_div_ps(seen, moment, total), now = _mm512_add_ps(before, moved);
    centred_tangents(scores + at, tangents + at, keys, times_tangent, now, tangent_pairs + at);
    _mm512_storeu_ps(sum + at, total);
    _mm512_storeu_ps(mean + at, now);
    _mm512_storeu_ps(shift + at, moved);
  }
}

}  // namespace

void tile_tangent_softmax(float* scores, const float* tangents, int64_t keys, int64_t columns, float factor, float tangent_factor,
                          float* reference, float* sum, float* mean, uint32_t* pairs, uint32_t* tangent_pairs, float* rescale,
                          float* shift) {
  const auto run = columns > 16 ? tangent_softmax<2> : tangent_softmax<1>;
  run(scores, tangents, keys, factor, tangent_factor, reference, sum, mean, pairs, tangent_pairs, rescale, shift);
}

}  // namespace deckle::kernels::cpu::simd

#else  // not supported by the target: bf16_products() never says tiles

namespace deckle::kernels::cpu::simd {

void tile_tangent_softmax(float*, const float*, int64_t, int64_t, float, float, float*, float*, float*, uint32_t*, uint32_t*,
                          float*, float*) {
  fail(ErrorKind::runtime, "this machine has no AMX tiles");
}

}  // namespace deckle::kernels::cpu::simd
#endif
