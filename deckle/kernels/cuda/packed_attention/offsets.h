#pragma once

#include "deckle/core/cuda/uses.h"
#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/args/context.h"

namespace deckle::kernels::cuda {

/// A call reads the offsets of a batch next whose lengths the device alone knows: in whatever stream, it comes after what set
/// them, and what sets others comes after it.
inline void use_offsets(const Context& context, const AttentionProblem& problem) {
  deckle::cuda::use(problem.device_q_offsets, context.device);
  deckle::cuda::use(problem.device_k_offsets, context.device);
}

}  // namespace deckle::kernels::cuda
