#pragma once

#include <cstdint>

// Loops on registers alone: what the arithmetic units of one core can do at most.

namespace deckle::kernels::cpu::simd {

/// A unit and how to keep it busy: `run(steps)` does steps * flops operations on the calling thread.
struct PeakLoop {
  double flops;
  void (*run)(int64_t steps);
};

/// Each has no `run` where this process may not use the instructions.
PeakLoop float32_peak_loop();
PeakLoop pair_dot_peak_loop();
PeakLoop tiles_peak_loop();

}  // namespace deckle::kernels::cpu::simd
