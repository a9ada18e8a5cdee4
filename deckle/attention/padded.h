#pragma once

#include <string>

#include "deckle/attention/attention.h"

namespace deckle {

/// Packed operands with zeros behind their last columns, where the kernels of a GPU then serve them that would not, or faster
/// ones do: head dims of halves are read in pieces of 16 bytes, and so are the rows of a bias by Hopper's kernels, which are
/// compiled for a few pairs of head dims. Zeros change no score; what of the result comes of them is to be cut off. These are
/// ops, so derivatives of every order are those of what was given.
struct PaddedOperands {
  Tensor q, k, v;
  AttentionOptions options;  // with the scale of the head dim that was given
  std::string explanation;   // a line for each copy; empty: no operand was copied
};

PaddedOperands padded_operands(const Tensor& q, const Tensor& k, const Tensor& v, const Ragged& k_rows,
                               const AttentionOptions& options);

}  // namespace deckle
