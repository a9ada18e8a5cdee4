#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// to[i] = from[count - 1 - i], of elements of 1, 2, 4 or 8 bytes: T is an unsigned integer. The two share no memory.
template <typename T>
void reverse(const T* from, int64_t count, T* to);

}  // namespace deckle::kernels::cpu::simd
