#pragma once

// Include this before anything of Highway: it fixes the instruction sets that every kernel file is compiled for
// (one lane at a time on plain x86-64, AVX2 with FMA, AVX-512). SSSE3 and SSE4 would add compile time for machines older
// than 2013; AVX3_DL adds nothing that these kernels use. Highway's EMU128 fallback is miscompiled by GCC 12.2, so the
// fallback is its one-lane target, where vectors have no halves.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)

#include <hwy/targets.h>

#include <cstdint>
#include <vector>

namespace deckle::kernels::cpu::simd {

/// Caps Highway at what DECKLE_CPU allows; runs once, later calls cost one load. An unknown value throws Error.
void apply_cpu_cap();

/// The Highway targets (HWY_SCALAR, HWY_AVX2, ...) that are compiled in, allowed and supported here, strongest last.
std::vector<int64_t> usable_targets();

/// Makes every later dispatch of this process use `target`, one of usable_targets(). For tests.
void force_target(int64_t target);

}  // namespace deckle::kernels::cpu::simd

/// The function exported by HWY_EXPORT(NAME), of the strongest allowed instruction set.
#define DECKLE_SIMD(NAME) (::deckle::kernels::cpu::simd::apply_cpu_cap(), HWY_DYNAMIC_DISPATCH(NAME))
