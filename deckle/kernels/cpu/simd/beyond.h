#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// The first i of [begin, n) with x[i] > limit, or, with `below`, x[i] < limit; n if there is none. Where one of the two is NaN,
/// so is i. T is float, double or int64_t.
template <typename T>
int64_t next_beyond(const T* x, int64_t begin, int64_t n, T limit, bool below);

}  // namespace deckle::kernels::cpu::simd
