#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// to[i * times + j] = from[i], j < times, of elements of 2, 4 or 8 bytes: T is an unsigned integer. The two share no memory.
template <typename T>
void repeat_each(const T* from, int64_t count, int64_t times, T* to);

}  // namespace deckle::kernels::cpu::simd
