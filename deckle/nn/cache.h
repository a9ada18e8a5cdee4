#pragma once

#include <vector>

#include "deckle/core/tensor.h"

namespace deckle::nn {

/// Keys and values of the positions that a decoder has seen, so that a further one costs one row. For one batch of
/// sequences of equal length; without gradients.
struct KeyValueCache {
  struct Layer {
    Tensor keys;    // [B, capacity, Hk, D]
    Tensor values;
  };
  std::vector<Layer> layers;
  int64_t length = 0;  // positions seen
};

}  // namespace deckle::nn
