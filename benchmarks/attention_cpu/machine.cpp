#include "benchmarks/attention_cpu/machine.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "deckle/base/cpu_cap.h"
#include "deckle/base/parallel.h"

namespace deckle::benchmarks {
namespace {

constexpr int kChains = 12;
constexpr int64_t kSteps = 4'000'000;

template <typename Body>
double rate(double flops_per_step, Body body) {
  double best = 0;
  for (int repeat = 0; repeat < 12; ++repeat) {
    const double start = now();
    parallel_for(num_threads(), 1, [&](int64_t, int64_t) { body(); });
    const double seconds = now() - start;
    best = std::max(best, flops_per_step * static_cast<double>(kSteps) * num_threads() / seconds / 1e9);
  }
  return best;
}

template <typename Vector>
[[gnu::always_inline]] inline void keep(Vector& value) {
  asm volatile("" : "+v"(value));
}

__attribute__((target("avx2,fma"))) void float32_avx2() {
  __m256 sums[kChains] = {}, x = _mm256_set1_ps(0.5f);
  for (int64_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, x, x), keep(sum);
  }
}

__attribute__((target("avx512f"))) void float32_avx512() {
  __m512 sums[kChains] = {}, x = _mm512_set1_ps(0.5f);
  for (int64_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm512_fmadd_ps(sum, x, x), keep(sum);
  }
}

__attribute__((target("avx512f,avx512bf16"))) void bfloat16_avx512() {
  __m512 sums[kChains] = {};
  __m512bh x{};
  for (int64_t i = 0; i < kSteps; ++i) {
#pragma GCC unroll 12
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, x, x), keep(sum);
  }
}

}  // namespace

double now() {
  if (!use_cpu_time) return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double float32_peak() {
  return cpu_isa() >= CpuIsa::avx512 ? rate(kChains * 32, float32_avx512)
         : cpu_isa() >= CpuIsa::avx2 ? rate(kChains * 16, float32_avx2)
                                     : 0;
}

double float64_peak() { return float32_peak() / 2; }

double bfloat16_peak() { return cpu_isa() >= CpuIsa::avx512_bf16 ? rate(kChains * 64, bfloat16_avx512) : 0; }

}  // namespace deckle::benchmarks
