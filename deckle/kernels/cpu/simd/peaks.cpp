#include "deckle/kernels/cpu/simd/peaks.h"

#include "deckle/base/cpu_cap.h"
#include "deckle/kernels/cpu/simd/amx.h"

#if defined(__x86_64__)
// GCC 12 warns about the deliberately undefined operand of unmasked intrinsics.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

namespace deckle::kernels::cpu::simd {
namespace {

/// Independent accumulators: more than latency times units.
constexpr int kChains = 12;

/// Depth of a tile product before its sums are stored: large enough to make stores negligible.
constexpr int64_t kPeakDepth = 1024;

// A macro, for a function would need the instruction set of each of its callers.
#define DECKLE_KEEP(value) asm volatile("" : "+v"(value))

__attribute__((target("avx2,fma"), optimize("O2"))) void fma_avx2(int64_t steps) {
  __m256 sums[kChains] = {}, x = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = _mm256_fmadd_ps(sum, x, x);
      DECKLE_KEEP(sum);
    }
  }
}

__attribute__((target("avx512f"), optimize("O2"))) void fma_avx512(int64_t steps) {
  __m512 sums[kChains] = {}, x = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = _mm512_fmadd_ps(sum, x, x);
      DECKLE_KEEP(sum);
    }
  }
}

__attribute__((target("avx512f,avx512bf16"), optimize("O2"))) void pair_dot(int64_t steps) {
  __m512 sums[kChains] = {};
  __m512bh x{};
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, x, x);
      DECKLE_KEEP(sum);
    }
  }
}

__attribute__((target("avx512f"), optimize("O2"))) void read_avx512(const void* memory, int64_t lines) {
  const auto* const line = static_cast<const __m512i*>(memory);
  for (int64_t i = 0; i < lines; ++i) {
    __m512i words = _mm512_load_si512(line + i);
    DECKLE_KEEP(words);
  }
}

__attribute__((target("avx2"), optimize("O2"))) void read_avx2(const void* memory, int64_t lines) {
  const auto* const half = static_cast<const __m256i*>(memory);
  for (int64_t i = 0; i < 2 * lines; ++i) {
    __m256i words = _mm256_load_si256(half + i);
    DECKLE_KEEP(words);
  }
}

__attribute__((optimize("O2"))) void read_sse2(const void* memory, int64_t lines) {
  const auto* const quarter = static_cast<const __m128i*>(memory);
  for (int64_t i = 0; i < 4 * lines; ++i) {
    __m128i words = _mm_load_si128(quarter + i);
    asm volatile("" : "+x"(words));
  }
}

void tile_products(int64_t steps) {
  alignas(64) static constexpr uint32_t kZeros[kPeakDepth] = {};  // every row of both operands
  alignas(64) float sums[2 * kTile * 2 * kTile];
  const TileScope tiles;
  for (int64_t i = 0; i < steps; ++i) tile_matmul(2 * kTile, 2 * kTile, kPeakDepth, kZeros, 0, kZeros, 0, sums, 2 * kTile, false);
}

}  // namespace

PeakLoop float32_peak_loop() {
  return cpu_isa() >= CpuIsa::avx512 ? PeakLoop{kChains * 32, fma_avx512}
         : cpu_isa() >= CpuIsa::avx2 ? PeakLoop{kChains * 16, fma_avx2}
                                     : PeakLoop{0, nullptr};
}

PeakLoop pair_dot_peak_loop() {
  return cpu_isa() >= CpuIsa::avx512_bf16 ? PeakLoop{kChains * 64, pair_dot} : PeakLoop{0, nullptr};
}

/// The tile product of blocks of 2 x 2 tiles with its operands in the first cache, whose loads run beside the products.
PeakLoop tiles_peak_loop() {
  if (bf16_products() != Bf16Arithmetic::tiles) return {0, nullptr};
  return {2.0 * (2 * kTile) * (2 * kTile) * (2 * kPeakDepth), tile_products};
}

ReadLoop read_loop() { return cpu_isa() >= CpuIsa::avx512 ? read_avx512 : cpu_isa() >= CpuIsa::avx2 ? read_avx2 : read_sse2; }

}  // namespace deckle::kernels::cpu::simd

#else

namespace deckle::kernels::cpu::simd {
PeakLoop float32_peak_loop() { return {0, nullptr}; }
PeakLoop pair_dot_peak_loop() { return {0, nullptr}; }
PeakLoop tiles_peak_loop() { return {0, nullptr}; }
ReadLoop read_loop() { return nullptr; }
}  // namespace deckle::kernels::cpu::simd
#endif
