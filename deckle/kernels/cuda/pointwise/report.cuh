#pragma once

// What a kernel says of values that it cannot serve, in words that the host reads at the next synchronisation.
#include <cstdint>

#include "deckle/core/cuda/error.h"

namespace deckle::kernels::cuda::pointwise {

/// Only the thread that takes the words writes them, so that no report is of two threads.
__device__ inline void report(deckle::cuda::IndexFault* words, deckle::cuda::FaultKind kind, int64_t index, int64_t size) {
  if (atomicCAS(&words->taken, 0, 1) != 0) return;
  words->index = index;
  words->size = size;
  __threadfence_system();
  words->happened = kind;
}

}  // namespace deckle::kernels::cuda::pointwise
