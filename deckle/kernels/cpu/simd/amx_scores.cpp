#include "deckle/kernels/cpu/simd/amx_scores.h"

#include "deckle/base/check.h"

#if defined(__x86_64__)
#include "deckle/kernels/cpu/simd/amx_vectors.h"

namespace deckle::kernels::cpu::simd {
namespace {

/// Weights of 16 columns, as pairs of keys; their sums. `subtracts` is by.subtracts.
template <bool subtracts>
DECKLE_SCORES_INLINE __m512 weights_of(const float* __restrict scores, int64_t keys, __m512 factor, const SplitReference& by,
                                       uint32_t* __restrict pairs) {
  const __m512i order = key_pair_order();
  const auto weight = [&](const float* at) DECKLE_WEIGHTS {
    const __m512 score = _mm512_loadu_ps(at);
    return exp2_of(subtracts ? _mm512_sub_ps(score, by.near) : score, factor, by.far);
  };
  __m512 total0 = _mm512_setzero_ps(), total1 = total0;  // of these keys: short chains of additions round less
  for (int64_t group = 0; group < keys; group += kKeyGroup) {
    const float* at = scores + 32 * group;
    uint32_t* to = pairs + 16 * group;
#pragma GCC unroll 4
    for (int i = 0; i < 16; ++i) {
      const __m512 a = weight(at + 32 * i), b = weight(at + 32 * (i + 16));
      total0 = _mm512_add_ps(total0, a);
      total1 = _mm512_add_ps(total1, b);
      _mm512_storeu_si512(to + 32 * i, pair_rows(a, b, order));
    }
  }
  return _mm512_add_ps(total0, total1);
}

template <int kVectors>
DECKLE_SCORES bool softmax(const float* __restrict scores, int64_t keys, float factor, float* __restrict reference,
                           float* __restrict sum, uint32_t* __restrict pairs, float* __restrict rescale) {
  const __m512 times = _mm512_set1_ps(factor);
  const bool moved = move_reference<kVectors>(scores, keys, times, reference, sum, rescale);
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const SplitReference by(reference + 16 * v, times);
    const __m512 total = !by.subtracts ? weights_of<false>(scores + 16 * v, keys, times, by, pairs + 16 * v)
                                       : weights_of<true>(scores + 16 * v, keys, times, by, pairs + 16 * v);
    _mm512_storeu_ps(sum + 16 * v, _mm512_add_ps(_mm512_loadu_ps(sum + 16 * v), total));
  }
  return moved;
}

}  // namespace

bool tile_softmax(const float* scores, int64_t keys, int64_t columns, float factor, float* reference, float* sum, uint32_t* pairs,
                  float* rescale) {
  return columns > 16 ? softmax<2>(scores, keys, factor, reference, sum, pairs, rescale)
                      : softmax<1>(scores, keys, factor, reference, sum, pairs, rescale);
}

DECKLE_SCORES void tile_rescale(float* rows, int64_t count, int64_t columns, const float* factors) {
  const __m512 low = _mm512_loadu_ps(factors), high = columns > 16 ? _mm512_loadu_ps(factors + 16) : low;
  for (int64_t r = 0; r < count; ++r, rows += kTileQueries) {
    _mm512_storeu_ps(rows, _mm512_mul_ps(_mm512_loadu_ps(rows), low));
    if (columns > 16) _mm512_storeu_ps(rows + 16, _mm512_mul_ps(_mm512_loadu_ps(rows + 16), high));
  }
}

DECKLE_SCORES void tile_drop(uint32_t* pairs, int64_t keys, const uint8_t* keep) {
  const auto flags = [](const uint8_t* at) __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))) {
    return _mm_cmpneq_epi8_mask(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), _mm_setzero_si128());
  };
  const __m512i low_half = _mm512_set1_epi32(0xffff);
  for (int64_t group = 0; group < keys; group += kKeyGroup) {
    for (int64_t i = 0; i < 16; ++i) {
      for (int64_t column = 0; column < kTileQueries; column += 16) {
        uint32_t* at = pairs + (group / 2 + i) * kTileQueries + column;
        const __m512i value = _mm512_loadu_si512(at);
        const __m512i low = _mm512_maskz_and_epi32(flags(keep + (group + i) * kTileQueries + column), value, low_half),
                      high = _mm512_maskz_andnot_epi32(flags(keep + (group + i + 16) * kTileQueries + column), low_half, value);
        _mm512_storeu_si512(at, _mm512_or_si512(low, high));
      }
    }
  }
}

DECKLE_SCORES void tile_key_pairs(const uint32_t* units, int64_t unit_stride, int64_t count, int64_t keys, uint32_t* to,
                                  int64_t to_stride) {
  constexpr __mmask32 kOdd = 0xaaaaaaaa;
  for (int64_t c = 0; c < count; ++c, units += unit_stride, to += 2 * to_stride) {
    for (int64_t group = 0; group < keys; group += kKeyGroup) {
      const __m512i low = _mm512_loadu_si512(units + group), high = _mm512_loadu_si512(units + group + 16);
      _mm512_storeu_si512(to + group / 2, _mm512_mask_blend_epi16(kOdd, low, _mm512_slli_epi32(high, 16)));
      _mm512_storeu_si512(to + to_stride + group / 2, _mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(low, 16), high));
    }
  }
}

DECKLE_SCORES void tile_row_pairs(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t columns, uint32_t* to,
                                  int64_t to_stride) {
  for (int64_t r = 0; r < rows; r += 2, from += 2 * from_stride, to += to_stride) {
    const auto* even = reinterpret_cast<const uint16_t*>(from);
    const auto* odd = reinterpret_cast<const uint16_t*>(from + from_stride);
    for (int64_t c = 0; c < columns; c += 16) {
      const auto within = static_cast<__mmask16>(columns - c >= 16 ? 0xffff : (1 << (columns - c)) - 1);
      const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(within, even + c)),
                    high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(r + 1 < rows ? within : __mmask16{0}, odd + c));
      _mm512_storeu_si512(to + c, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
    }
  }
}

}  // namespace deckle::kernels::cpu::simd

#else  // not supported by the target: bf16_products() never says tiles

namespace deckle::kernels::cpu::simd {
namespace {
[[noreturn]] void none() { fail(ErrorKind::runtime, "this machine has no AMX tiles"); }
}  // namespace

bool tile_softmax(const float*, int64_t, int64_t, float, float*, float*, uint32_t*, float*) { none(); }
void tile_rescale(float*, int64_t, int64_t, const float*) { none(); }
void tile_drop(uint32_t*, int64_t, const uint8_t*) { none(); }
void tile_key_pairs(const uint32_t*, int64_t, int64_t, int64_t, uint32_t*, int64_t) { none(); }
void tile_row_pairs(const uint32_t*, int64_t, int64_t, int64_t, uint32_t*, int64_t) { none(); }

}  // namespace deckle::kernels::cpu::simd
#endif
