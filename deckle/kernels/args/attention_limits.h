// What the CUDA attention kernels serve in numbers: asked by the plan, before a kernel is chosen, and by each launch.
#pragma once

#include <cstdint>

namespace deckle::kernels {

/// Hopper's backward has no scores of before the cap. It takes tanh from the weight and the log-sum-exp, as (log2 p + lse2) / c,
/// which errs by 2e-6 / c: from this cap on by less than a weight rounds to in 16 bits.
inline constexpr float kLeastSoftCapOfHopperBackward = 1.0f / 64;

}  // namespace deckle::kernels
