#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// to[c * to_stride + r] = from[r * from_stride + c] for r < rows, c < cols, of elements of 1, 2, 4 or 8 bytes: T is an unsigned
/// integer. Best for some tens of rows at a time: 16 columns of them stay in L1 and move as whole cache lines.
template <typename T>
void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride);

}  // namespace deckle::kernels::cpu::simd
