#pragma once

#include <cstdint>
#include <string>

#include "deckle/base/device.h"
#include "tools/deckle/train_options.h"

namespace deckle::cli {

/// An Error if training cannot fit into the memory of `device`, a GPU's own, by a lower bound: parameters, their gradients and
/// AdamW's averages, and the tokens and activations of a step over texts of `text_bytes`. Called before any of it is allocated.
void require_memory(const TrainOptions& options, int64_t text_bytes, Device device);

/// The same of `available` bytes, which `owner` has.
void require_memory(const TrainOptions& options, int64_t text_bytes, double available, const std::string& owner);

}  // namespace deckle::cli
