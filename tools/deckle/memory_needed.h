#pragma once

#include "tools/deckle/train_options.h"

namespace deckle::cli {

/// An Error if training cannot fit into the machine's memory, by a lower bound: parameters, their gradients and AdamW's averages,
/// and the tokens and activations of a step over texts of `text_bytes`. Called before any of it is allocated.
void require_memory(const TrainOptions& options, int64_t text_bytes);

/// The same for a machine of `available` bytes.
void require_memory(const TrainOptions& options, int64_t text_bytes, double available);

}  // namespace deckle::cli
