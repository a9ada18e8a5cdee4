#pragma once

#include "deckle/core/ragged_shape.h"
#include "deckle/kernels/args/generated/conv.h"

namespace deckle {

/// Windows of `size` rows, `dilation` apart, that move by `stride` along each sequence. Padding: ops/conv.yaml.
struct Windows {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  Padding padding = Padding::valid;
};

/// The number of windows of each sequence. Throws for sizes below 1.
Ragged windowed(const Ragged& ragged, const Windows& windows);

/// How many rows before its sequence the first window begins: window w begins at row w stride - lead.
int64_t lead(const Windows& windows);

/// The lengths times scale, rounded down. Throws unless scale is positive and the lengths can be counted.
Ragged scaled(const Ragged& ragged, double scale);

}  // namespace deckle
