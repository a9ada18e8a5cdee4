#pragma once

#include <cstdint>

#include "deckle/core/tensor.h"

namespace deckle {

/// Where the components of a batch lie whose lengths change from step to step while its memory stays (nested/capacity.h): read by
/// kernels, and by nobody else.
struct RaggedRoom {
  int64_t components = 0, rows = 0, longest = 0;  // that there is room for
  Tensor offsets;                                 // int64 [components + 1] on a device
};

}  // namespace deckle
