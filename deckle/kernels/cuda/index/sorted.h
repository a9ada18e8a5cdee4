#pragma once

#include <cstdint>

#include "deckle/kernels/args/context.h"

namespace deckle::kernels::cuda::index {

/// Sorts `count` keys below `bound`, stably, their positions with them; on the current device.
void sort_positions(const Context& context, const uint32_t* keys, uint32_t* sorted_keys, const uint32_t* positions,
                    uint32_t* sorted_positions, int64_t count, int64_t bound);

}  // namespace deckle::kernels::cuda::index
