#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// Whether 0 <= x[i] < size for all i; T is int64_t or int32_t.
template <typename T>
bool all_within(const T* x, int64_t count, int64_t size);

}  // namespace deckle::kernels::cpu::simd
