#pragma once

#include <array>
#include <memory>

#include "deckle/kernels/args/attention_candidates.h"

namespace deckle {

/// A decided attention call: layout, mask, scale, dropout and kernels, made once by deckle/attention and shared by the forward
/// and every derivative. Immutable.
struct AttentionPlan {
  AttentionProblem problem;
  std::array<AttentionKernel, kAttentionPasses> kernels;  // by AttentionPass
  std::shared_ptr<const void> owner;                      // of the memory that the problem points to
};

/// The argument type of attention ops.
using Plan = std::shared_ptr<const AttentionPlan>;

}  // namespace deckle
