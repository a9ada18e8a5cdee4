#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// The first i of [begin, n) with x[i] > limit, or, with `below`, x[i] < limit; n if there is none. Where one of the two is NaN,
/// so is i.
int64_t next_beyond(const float* x, int64_t begin, int64_t n, float limit, bool below);
int64_t next_beyond(const double* x, int64_t begin, int64_t n, double limit, bool below);
int64_t next_beyond(const int64_t* x, int64_t begin, int64_t n, int64_t limit, bool below);

}  // namespace deckle::kernels::cpu::simd
