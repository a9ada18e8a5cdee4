#pragma once

#include "deckle/nested/nested_tensor.h"

namespace deckle {

enum class Pooling { average, max, first, last };

/// One row for each component, over its ragged dims: [B, regular dims], no dim ragged. An empty component gives zeros (mean and
/// max over the ragged dim give NaN and -inf there). first and last need one ragged dim.
NestedTensor pool(const NestedTensor& x, Pooling pooling);

}  // namespace deckle
