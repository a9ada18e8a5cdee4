#pragma once

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels::cpu {

/// Masks compare positions in int32 lanes; the margin keeps position + tile from overflowing.
inline constexpr int64_t kMaxAttentionLength = (int64_t{1} << 31) - (int64_t{1} << 16);

/// Throws Error with attention_fused_why_not's reason if there is one.
void require_served(const AttentionProblem& problem);

}  // namespace deckle::kernels::cpu
