#pragma once

#include <memory>

#include "deckle/kernels/args/attention.h"

namespace deckle {

/// A decided attention call: layout, mask, scale and dropout, made once by deckle/attention and shared by the forward and
/// every derivative. Immutable.
struct AttentionPlan {
  AttentionProblem problem;
  std::shared_ptr<const void> owner;  // of the memory that the problem points to
};

/// The argument type of attention ops.
using Plan = std::shared_ptr<const AttentionPlan>;

}  // namespace deckle
