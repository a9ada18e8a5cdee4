#pragma once

// Include this before anything of Highway: it fixes the instruction sets that every kernel file is compiled for: AVX-512 (not
// AVX3_DL, which adds nothing here), AVX2 with FMA (not those of before 2013), and else one lane at a time, without halves. Its
// EMU128, which Highway takes there from GCC 12.3 on, is miscompiled by GCC 12.2, and GCC 13 at -O3 loses NaN in it.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#define HWY_BROKEN_EMU128 1

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
