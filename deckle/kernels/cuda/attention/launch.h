// What every launch needs from the device and the runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

/// Dynamic shared memory a block may have on Hopper.
inline constexpr int kMaxSharedBytes = 232448;

/// Throws std::runtime_error "what: the runtime's message" unless the call succeeded.
void check(cudaError_t error, const char* what);

/// Multiprocessors of the current device.
int multiprocessors();

/// Raises the kernel's dynamic shared memory limit, once per kernel and device.
void allow_shared_memory(const void* kernel, int bytes);

/// Throws std::runtime_error naming `what` if the last launch failed.
void check_launch(const char* what);

/// How many (sequence, head) pairs are worked on together. Where all tiles cost the same, one after the other: fewest keys and
/// values are live in L2. Otherwise as many as fit the part of L2 worth planning for, `row_bytes` a row and kv head, so that the
/// longest tiles can come first.
int heads_together(const AttentionSizes& sizes, bool equal_costs, int64_t row_bytes);

}  // namespace deckle::kernels::cuda::attention
