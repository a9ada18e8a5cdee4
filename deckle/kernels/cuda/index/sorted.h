#pragma once

#include <cstdint>

#include "deckle/kernels/args/context.h"

namespace deckle::kernels::cuda::index {

/// How many bits numbers up to `bound` have.
int bits_below(int64_t bound);

/// Sorts `count` keys below `bound`, stably, their positions with them; on the current device.
void sort_positions(const Context& context, const uint32_t* keys, uint32_t* sorted_keys, const uint32_t* positions,
                    uint32_t* sorted_positions, int64_t count, int64_t bound);
/// The same by the lowest `bits` of wide keys.
void sort_wide(const Context& context, const uint64_t* keys, uint64_t* sorted_keys, const uint32_t* positions,
               uint32_t* sorted_positions, int64_t count, int bits);

}  // namespace deckle::kernels::cuda::index
