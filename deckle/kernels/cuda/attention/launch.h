// What every launch needs from the device and the runtime.
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

/// Dynamic shared memory a block may have on Hopper.
inline constexpr int kMaxSharedBytes = 232448;

/// Multiprocessors of the current device.
int multiprocessors();

/// Raises the kernel's dynamic shared memory limit, once per kernel and device.
void allow_shared_memory(const void* kernel, int bytes);

/// Throws std::runtime_error naming `what` if the last launch failed.
void check_launch(const char* what);

/// How many (sequence, head) pairs' keys and values, `row_bytes` a row and kv head, fit the part of L2 worth planning for.
int heads_within_cache(const AttentionSizes& sizes, int64_t row_bytes);

}  // namespace deckle::kernels::cuda::attention
