#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

namespace deckle {

/// Number of threads that parallel_for uses at most; results never depend on it. Default: OMP_NUM_THREADS or the cores.
int num_threads();

/// Sets the number of threads (>= 1; may exceed the cores). Applies to later calls from every thread.
void set_num_threads(int count);

namespace detail {
void run_chunks(int64_t chunks, const std::function<void(int64_t chunk)>& body);
}

/// Calls `body(begin, end)` on consecutive ranges that cover [0, count). The cut depends on `grain` (indices per range,
/// >= 1) alone, never on the number of threads, so reductions by range are reproducible. The first exception is
/// rethrown on the caller's thread after all running ranges have ended. Nests (inner calls run serially) and
/// survives fork (the child runs serially).
template <typename Body>
void parallel_for(int64_t count, int64_t grain, Body&& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t chunks = (count + grain - 1) / grain;
  if (chunks == 1) {
    body(int64_t{0}, count);
    return;
  }
  detail::run_chunks(chunks, [&](int64_t chunk) {
    const int64_t begin = chunk * grain;
    body(begin, std::min(begin + grain, count));
  });
}

}  // namespace deckle
