#pragma once

#include "deckle/core/dims.h"
#include "deckle/core/ragged_shape.h"

/// Windows of `size` rows, `dilation` apart, that move by `stride` along each sequence (ops/conv.yaml), and scaled sequences.
namespace deckle::shapes {

/// The sequences of a dense [..., L, C], all of length L.
Ragged equal_sequences(IntSpan sizes);

/// The number of windows of each sequence, or of one: those `within` it, or as many as rows begin. Throws for sizes below 1.
Ragged count_windows(const Ragged& ragged, int64_t size, int64_t stride, int64_t dilation, bool within);
int64_t window_count(int64_t length, int64_t size, int64_t stride, int64_t dilation, bool within);

/// How many rows before its sequence the first window begins: window w begins at row w stride - lead.
int64_t window_lead(int64_t size, int64_t dilation, bool centred, bool causal);

/// The lengths, or one, times scale, rounded down. Throws unless scale is positive and the lengths can be counted.
Ragged scale_lengths(const Ragged& ragged, double scale);
int64_t scaled_length(int64_t length, double scale);

}  // namespace deckle::shapes
