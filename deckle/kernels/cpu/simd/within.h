#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// Whether 0 <= x[i] < size for all i.
bool all_within(const int64_t* x, int64_t count, int64_t size);
bool all_within(const int32_t* x, int64_t count, int64_t size);

}  // namespace deckle::kernels::cpu::simd
