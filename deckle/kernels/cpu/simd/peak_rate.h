#pragma once

#include "deckle/base/parallel.h"
#include "deckle/kernels/cpu/simd/peaks.h"

namespace deckle::kernels::cpu::simd {

/// Operations a second of all threads in `loop`, during `seconds` of the clock `now`; 0 where the loop is not here. Threads take
/// short pieces, as kernels do: one that wakes late, or that another process displaces, delays the others by no more than its
/// piece.
template <typename Now>
double peak_rate(const PeakLoop& loop, double seconds, Now&& now) {
  if (loop.run == nullptr) return 0;
  constexpr double kFlopsOfPiece = 5e7;  // 0.04 ms on tiles, 0.3 to 1 ms in vectors
  constexpr int64_t kPiecesOfThread = 8;
  const auto steps = static_cast<int64_t>(kFlopsOfPiece / loop.flops) + 1;
  const int64_t pieces = kPiecesOfThread * num_threads();
  double done = 0, elapsed = 0;
  for (const double start = now(); elapsed < seconds; elapsed = now() - start) {
    parallel_for(pieces, 1, [&](int64_t, int64_t) { loop.run(steps); });
    done += loop.flops * static_cast<double>(steps * pieces);
  }
  return done / elapsed;
}

}  // namespace deckle::kernels::cpu::simd
