#pragma once

#include <cstdint>

// Register-only loops, the peak throughput of the arithmetic units of one core, and a loop that does nothing but read.

namespace deckle::kernels::cpu::simd {

/// An arithmetic unit: `run(steps)` does steps * flops operations on the calling thread.
struct PeakLoop {
  double flops;
  void (*run)(int64_t steps);
};

/// `run` is empty where this process may not use the instructions.
PeakLoop float32_peak_loop();
PeakLoop pair_dot_peak_loop();
PeakLoop tiles_peak_loop();

/// Reads lines of 64 bytes in order, as wide as this process may, and keeps nothing of them. Null where no loop is written.
using ReadLoop = void (*)(const void* memory, int64_t lines);
ReadLoop read_loop();

}  // namespace deckle::kernels::cpu::simd
