#pragma once

namespace deckle::benchmarks {

/// Fused multiply-adds per second times two, all threads of parallel_for at once, in GFLOP/s: the ceiling of every figure.
double float32_peak();
double float64_peak();

/// The same for the bf16 dot product; 0 where the machine has none.
double bfloat16_peak();

/// Measure with one thread's processor time in place of the wall clock.
inline bool use_cpu_time = false;

/// Seconds by the clock chosen above.
double now();

}  // namespace deckle::benchmarks
