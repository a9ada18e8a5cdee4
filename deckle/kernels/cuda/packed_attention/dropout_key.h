#pragma once

#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/attention/portable_features.h"

namespace deckle::kernels::cuda {

/// The key of dropout of one call, where a graph's work makes it on the device.
class DropoutKey {
 public:
  DropoutKey(const Context& context, const AttentionDropout& dropout)
      : made_(dropout.threshold != 0 && dropout.standing != nullptr), memory_(made_ ? 2 * sizeof(uint32_t) : 0, context.device) {
    if (made_)
      attention::portable::make_dropout_key(dropout, memory_.as<uint32_t>(), deckle::cuda::stream_handle(context.device));
  }
  /// Null: kernels make it of the seed and the offset.
  const uint32_t* made() const { return made_ ? memory_.as<const uint32_t>() : nullptr; }

 private:
  bool made_;
  deckle::cuda::Block memory_;
};

}  // namespace deckle::kernels::cuda
